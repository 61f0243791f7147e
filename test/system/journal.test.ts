import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { startTestService } from '../support/service.ts'

const STATE = 'var/lib/receiverd'

t.test('a journal that is none is logged once, undoes nothing, and does not stand in the way', async t => {
  let service = await startTestService(t)
  for (const text of ['{}', '"x"', 'null', '[]', '[{"setting":"x","images":[null]}]', '[{"setting":"hostname"']) {
    const { value } = await service.system()
    await service.close()
    writeFileSync(service.path(`${STATE}/journal`), text)
    service = await startTestService(t, { root: service.root })
    const about = service.log.filter(line => /journal|undone/.test(line))
    t.equal(about.length, 1, text)
    t.match(about[0], /^error: .*not a journal.*set aside as journal\.bad/, text)
    t.strictSame((await service.system()).value, value, text)
    const refused = await service.patch({ hostname: 'not valid' })
    t.equal(refused.status, 422, text)
    const failing = await service.patch({ display: { 'HDMI-A-1': { mode: '1x1' } } })
    t.equal(failing.status, 422, text)
    t.equal((await service.patch({ hostname: value.hostname === 'lobby' ? 'receiver' : 'lobby' })).status, 200, text)
    t.equal(readFileSync(service.path(`${STATE}/journal.bad`), 'utf8'), text)
    t.notOk(existsSync(service.path(`${STATE}/journal`)), text)
    await service.close()
    service = await startTestService(t, { root: service.root })
    t.notOk(
      service.log.some(line => /journal|undone/.test(line)),
      `${text}: once`,
    )
  }
})
