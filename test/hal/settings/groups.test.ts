import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { deviceRoot } from '../../support/device.ts'
import { eventually } from '../../support/eventually.ts'
import { startTestService } from '../../support/service.ts'

const FILE = 'etc/receiverd/groups.conf'

t.test('kept in a file, where other lines stay, and an edit by hand is noticed', async t => {
  const root = deviceRoot(t)
  const service = await startTestService(t, { root })
  const groups = async () => (await service.system()).value.groups
  t.same(await groups(), [])
  t.equal((await service.patch({ groups: ['lobby', 'floor-4'] })).status, 200)
  t.equal(readFileSync(join(root, FILE), 'utf8'), 'GROUPS="lobby floor-4"\n')
  writeFileSync(join(root, FILE), '# by hand\nGROUPS="lobby  4 lobby"\n')
  await eventually(async () => JSON.stringify(await groups()) === '["lobby","4"]')
  t.equal((await service.patch({ groups: ['4'] })).status, 200)
  t.equal(readFileSync(join(root, FILE), 'utf8'), '# by hand\nGROUPS=4\n')
})

t.test('a name that cannot be one is refused, and says what is accepted', async t => {
  const service = await startTestService(t)
  const cases: readonly (readonly [groups: unknown, pointer: string, detail: RegExp])[] = [
    [['Lobby'], '/groups/0', /lower-case letters, digits and hyphens/],
    [['lobby', ''], '/groups/1', /1 to 32 characters/],
    [['a b'], '/groups/0', /1 to 32 characters/],
    [['a'.repeat(33)], '/groups/0', /not have more than 32 characters/],
    [['lobby', '4', 'lobby'], '/groups/2', /^duplicate$/],
    [Array.from({ length: 9 }, (_, n) => `${n}`), '/groups', /not have more than 8 items/],
    ['lobby', '/groups', /of type array/],
    [null, '/groups', /cannot be removed/],
  ]
  for (const [groups, pointer, detail] of cases) {
    const response = await service.patch({ groups } as object)
    t.equal(response.status, 422)
    t.match(await response.json(), { errors: [{ pointer, detail }] })
  }
})

t.test('a file that makes no sense is no group, and is repaired', async t => {
  const root = deviceRoot(t)
  mkdirSync(join(root, 'etc/receiverd'), { recursive: true })
  writeFileSync(join(root, FILE), 'GROUPS="Lobby"\n')
  const service = await startTestService(t, { root })
  t.same((await service.system()).value.groups, [])
  t.match(service.log.join('\n'), /^warning: groups: using the fallback: the stored value is invalid/m)
  t.equal((await service.patch({ groups: [] })).status, 200)
  t.equal(readFileSync(join(root, FILE), 'utf8'), 'GROUPS=""\n')
})
