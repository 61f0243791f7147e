// The least that node:http needs to answer the same requests with as many bytes, and to make a PATCH as durable: it checks
// no credentials and keeps no events. Its arguments are the length of its answers and the folder for its file.
import { closeSync, fsync, openSync, renameSync, writeSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'

const [length, folder] = process.argv.slice(2)
const body = Buffer.alloc(Number(length), ' ')
const streams = new Set<ServerResponse>()

const answer = (response: ServerResponse) =>
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length }).end(body)

const sync = promisify(fsync)
/** Ends when the latest change is stored: they share a file, and pipelined requests come together. */
let stored = Promise.resolve()

/** As fsyncs.c does it, with the system calls that wait for the disk off the event loop. */
async function store(text: string): Promise<void> {
  const temporary = `${folder}/.bare.temporary`
  const file = openSync(temporary, 'wx', 0o600)
  writeSync(file, text)
  await sync(file)
  closeSync(file)
  renameSync(temporary, `${folder}/bare`)
  const parent = openSync(`${folder}`, 'r')
  await sync(parent)
  closeSync(parent)
}

const server = createServer((request, response) => {
  if (request.method === 'PATCH') {
    let data = ''
    request.setEncoding('utf8').on('data', chunk => {
      data += chunk
    })
    request.on('end', async () => {
      stored = stored.then(() => store(data))
      await stored
      // The global, which loads node:crypto at its first use: a start does not need it.
      const frame = `id: ${crypto.randomUUID()}\nevent: system.changed\ndata: ${data}\n\n`
      for (const stream of streams) stream.write(frame)
      answer(response)
    })
  } else if (request.headers.accept === 'text/event-stream') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(':\n\n')
    streams.add(response)
    response.on('close', () => streams.delete(response))
  } else answer(response)
})
server.listen(0, '127.0.0.1', () => {
  console.error(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
