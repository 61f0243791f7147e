import t from 'tap'
import { connectedIn, networksOf, signalIn, stationsIn } from '../../../hal/format/wpa-cli.ts'

const station = (id: number, ssid: string, { level = -50, age = 1, flags = '[WPA2-PSK-CCMP][ESS]' } = {}) =>
  `id=${id}\nlevel=${level}\nage=${age}\nflags=${flags}\nssid=${ssid}\n====\n`
const ssids = (text: string) => stationsIn(text).stations.map(({ ssid }) => ssid)

t.test('the network that it is in', async t => {
  const status = (ssid: string, state = 'COMPLETED') =>
    `bssid=02:00:00:00:00:01\nssid=${ssid}\nid=0\nwpa_state=${state}\n`
  t.equal(connectedIn(status('Office')), 'Office')
  t.equal(connectedIn(status('Gro\\xc3\\x9f \\"7\\" \\\\')), 'Groß "7" \\')
  for (const text of ['', 'FAIL\n', status('Office', 'SCANNING'), status('\\xff'), 'wpa_state=COMPLETED\n'])
    t.equal(connectedIn(text), '', text)
  t.equal(connectedIn(status('a\\nwpa_state=COMPLETED', 'SCANNING')), '', 'a name is not a line')
})

t.test('its signal', async t => {
  t.equal(signalIn('RSSI=-53\nLINKSPEED=72\nNOISE=9999\nFREQUENCY=2437\n'), -53)
  for (const text of ['', 'FAIL\n', 'RSSI=0\n', 'RSSI=60\n', 'RSSI=\n', 'RSSI=-5x\n'])
    t.equal(signalIn(text), undefined, text)
})

t.test('the protection of each station', async t => {
  const cases: readonly (readonly [flags: string, security: string])[] = [
    ['[ESS]', 'open'],
    ['[WPS][ESS]', 'open'],
    ['[OWE-TRANS][ESS]', 'open'],
    ['', 'open'],
    ['[WPA2-PSK-CCMP][ESS]', 'psk'],
    ['[WPA-PSK-TKIP][WPA2-PSK-CCMP][WPS][ESS]', 'psk'],
    ['[WPA2-PSK+SAE-CCMP][SAE-H2E][ESS]', 'psk'],
    ['[WPA2-FT/PSK-CCMP][ESS]', 'psk'],
    ['[WPA2-PSK-SHA256-CCMP][ESS]', 'psk'],
    ['[WPA2-SAE-CCMP][SAE-H2E][ESS]', 'sae'],
    ['[WPA2-EAP-CCMP][ESS]', 'enterprise'],
    ['[WPA2-EAP-SUITE-B-192-GCMP-256][ESS]', 'enterprise'],
    ['[WEP][ESS]', 'other'],
    ['[RSN-OWE-CCMP][ESS]', 'other'],
    ['[WPA2-OWE-CCMP][ESS]', 'other'],
    ['[WPA2-?][ESS]', 'other'],
    ['[IBSS]', 'other'],
  ]
  for (const [flags, security] of cases) t.match(stationsIn(station(0, 'a', { flags })).stations, [{ security }], flags)
})

t.test('names that others have chosen: decoded, and none that is hidden or not UTF-8', async t => {
  for (const [written, read] of [
    ['Office', 'Office'],
    ['\\xe2\\x80\\xaemoc.knab', '\u{202e}moc.knab'],
    ['a\\nid=7\\n====\\nssid=b', 'a\nid=7\n====\nssid=b'],
    ['\\x1b[2J\\e[2J\\t\\r\\x7f', '\u{1b}[2J\u{1b}[2J\t\r\u{7f}'],
    ['<img src=x>', '<img src=x>'],
    ['\\\\xff', '\\xff'],
    ['\\x00a', '\0a'],
    ['a=b', 'a=b'],
    [' ', ' '],
  ] as const)
    t.strictSame(ssids(station(3, written)), [read], written)
  for (const written of ['', '\\x00\\x00', '\\xff', '\\xc3', '\\xed\\xa0\\x80', 'x'.repeat(33)])
    t.strictSame(ssids(station(3, written)), [], written)
})

t.test('an answer that breaks off, and the next range', async t => {
  t.strictSame(stationsIn(''), { stations: [], lastId: undefined })
  const { stations, lastId } = stationsIn(`${station(4, 'a')}${station(9, '\\xff')}id=10\nlevel=-5`)
  t.match(stations, [{ id: 4, ssid: 'a', signalDbm: -50, ageS: 1, security: 'psk' }])
  t.equal(lastId, 9)
  const last = station(11, 'b').replace('====', '####')
  t.strictSame(ssids(station(10, 'a') + last), ['a', 'b'], 'the last one of all')
  t.strictSame(stationsIn(station(1, 'a', { level: 50 })).stations, [], 'a driver that does not measure in dBm')
})

t.test('each network once, by its strongest station, and by its protection; the strongest come first', async t => {
  const { stations } = stationsIn(
    [
      station(0, 'Office', { level: -70 }),
      station(1, 'Office', { level: -40 }),
      station(2, 'Office', { level: -30, flags: '[ESS]' }),
      station(3, 'Guests', { level: -60, flags: '[ESS]' }),
    ].join(''),
  )
  const all = networksOf(stations, 64)
  t.strictSame(all, [
    { ssid: 'Office', signalDbm: -30, security: 'open' },
    { ssid: 'Office', signalDbm: -40, security: 'psk' },
    { ssid: 'Guests', signalDbm: -60, security: 'open' },
  ])
  t.strictSame(networksOf(stations, 1), all.slice(0, 1))
})
