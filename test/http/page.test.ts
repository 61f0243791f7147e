import { once } from 'node:events'
import http, { type IncomingHttpHeaders } from 'node:http'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { pageFromSources } from '../../build/page.ts'
import { startTestService } from '../support/service.ts'

t.test('the page is served to anybody, and its assets for ever', async t => {
  const service = await startTestService(t, { page: await pageFromSources() })
  const answer = await fetch(`${service.url}/`)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
  t.equal(answer.headers.get('referrer-policy'), 'no-referrer')
  t.equal(answer.headers.get('cross-origin-opener-policy'), 'same-origin')
  t.equal(
    answer.headers.get('content-security-policy'),
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
      "form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  )
  const html = await answer.text()
  t.notMatch(html, /<script(?! src="assets\/)|<style|\son\w+=|\sstyle=/, 'nothing inline')
  t.notMatch(html, /(?:src|href)="(?:\/|https?:)/, 'relative, so that a proxy may add a prefix')

  const paths = Array.from(html.matchAll(/"(assets\/[^"]+)"/g), ([, path = '']) => path)
  t.equal(paths.length, 2)
  for (const path of paths) {
    t.match(path, /^assets\/page-[0-9a-f]{12}\.(js|css)$/)
    const asset = await fetch(`${service.url}/${path}`)
    t.equal(asset.status, 200, path)
    t.match(asset.headers.get('content-type'), path.endsWith('.js') ? /^text\/javascript;/ : /^text\/css;/)
    t.equal(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable')
    t.equal(asset.headers.get('x-content-type-options'), 'nosniff')
    t.equal(asset.headers.get('vary'), 'Accept-Encoding')
    t.equal(asset.headers.get('content-encoding'), 'gzip')
    const whole = await asset.text()
    t.ok(whole.length > 2 * Number(asset.headers.get('content-length')), 'compressed')
    for (const accepted of ['', 'identity', 'br, gzip;q=0', 'GZIP; q=0.000', '*;q=0']) {
      const plain = await get(`${service.url}/${path}`, accepted)
      t.match(plain.headers, { vary: 'Accept-Encoding', 'content-length': String(whole.length) }, 'ASCII, and whole')
      t.notOk(plain.headers['content-encoding'], accepted)
      t.equal(plain.body.toString(), whole)
    }
    for (const accepted of ['gzip', 'br;q=1.0, GZip;q=0.5', 'deflate,*', 'x-gzip']) {
      const { headers, body } = await get(`${service.url}/${path}`, accepted)
      t.equal(headers['content-encoding'], 'gzip', accepted)
      t.equal(gunzipSync(body).toString(), whole)
    }
    const head = await fetch(`${service.url}/${path}`, { method: 'HEAD' })
    t.equal(head.headers.get('cache-control'), 'public, max-age=31536000, immutable', 'HEAD')
    t.equal(await head.text(), '')
  }
})

/** By node:http, which decodes nothing. */
async function get(url: string, accepted: string): Promise<{ headers: IncomingHttpHeaders; body: Buffer }> {
  const request = http.get(url, { headers: accepted === '' ? {} : { 'Accept-Encoding': accepted } })
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage]
  return { headers: answer.headers, body: Buffer.concat(await answer.toArray()) }
}

t.test('other paths and methods get what they would get elsewhere', async t => {
  const service = await startTestService(t, { page: await pageFromSources() })
  const ask = async (path: string, method = 'GET') => {
    const answer = await fetch(service.url + path, { method })
    await answer.arrayBuffer()
    return [answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]
  }
  const problem = (status: number) => [status, 'application/problem+json', 'no-store']
  t.strictSame(await ask('/', 'POST'), problem(405))
  t.strictSame(await ask('/assets/'), problem(404))
  t.strictSame(await ask('/assets/page-000000000000.js'), problem(404), 'of another version')
  t.strictSame(await ask('/index.html'), problem(404))
  t.strictSame(await ask('/api/v1'), problem(404))
})

t.test('RECEIVERD_PAGE=off leaves it out', async t => {
  const service = await startTestService(t, { page: await pageFromSources(), env: { RECEIVERD_PAGE: 'off' } })
  const answer = await fetch(`${service.url}/`)
  t.equal(answer.status, 404)
  t.equal(answer.headers.get('content-type'), 'application/problem+json')
})
