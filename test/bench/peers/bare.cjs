// node:http and nothing else: no credential, no routes, one body. CommonJS, as the service's bundle is.
const { createServer } = require('node:http')

const body = Buffer.from(process.env.BODY ?? '{}')
createServer((_request, response) => {
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  response.end(body)
}).listen(Number(process.env.PORT), '127.0.0.1')
