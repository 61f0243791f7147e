import t from 'tap'
import { closest } from '../../../hal/format/closest.ts'

const NAMES = ['hostname', 'deviceName', 'timezone', 'ntp', 'network', 'STREAMS', 'STREAMS_PER_ADDRESS', 'ROOT']

t.test('suggests what is within two edits', async t => {
  const cases: [word: string, meant: string][] = [
    ['hostnam', 'hostname'],
    ['hostnames', 'hostname'],
    ['hsotname', 'hostname'],
    ['hosname', 'hostname'],
    ['devicename', 'deviceName'],
    ['timeZone', 'timezone'],
    ['device_name', 'deviceName'],
    ['npt', 'ntp'],
    ['STREAM', 'STREAMS'],
    ['STREAMS_PER_ADRES', 'STREAMS_PER_ADDRESS'],
    ['ROTO', 'ROOT'],
    ['ntpp', 'ntp'],
  ]
  for (const [word, meant] of cases) t.equal(closest(word, NAMES), meant, word)
})

t.test('suggests nothing else', async t => {
  for (const word of ['', 'n', 'np', 'FOO', 'name', 'zone', 'MAX_STREAMS', 'constructor', 'x'.repeat(65_536)])
    t.equal(closest(word, NAMES), undefined, word.slice(0, 20))
})

t.test('suggests the closest', async t => {
  t.equal(closest('streams', ['screens', 'stream']), 'stream')
})
