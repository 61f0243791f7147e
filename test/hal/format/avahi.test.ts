import t from 'tap'
import { foundIn } from '../../../hal/format/avahi-browse.ts'
import { serviceGroup } from '../../../hal/format/avahi-service.ts'

t.test('avahi.service: what XML would take for markup is text, and nothing is longer than DNS allows', async t => {
  const group = serviceGroup({
    name: `<A & B>${'ß'.repeat(40)}\u0000`,
    services: [{ type: '_x._tcp', port: 80, txt: { model: 'Pi <4> & "more"', serial: '', long: 'x'.repeat(300) } }],
  })
  t.match(group, `<name>&lt;A &amp; B&gt;${'ß'.repeat(28)}</name>`)
  t.match(group, '<txt-record>model=Pi &lt;4&gt; &amp; "more"</txt-record>')
  t.notMatch(group, 'serial')
  t.match(group, `<txt-record>long=${'x'.repeat(250)}</txt-record>`)
})

t.test('avahi.service: of a list, as many whole items as fit', async t => {
  const groupOf = (groups: readonly string[]) =>
    serviceGroup({ name: 'Room', services: [{ type: '_x._tcp', port: 80, txt: { groups } }] })
  const of32 = Array.from('abcdefgh', letter => letter.repeat(32))
  t.match(groupOf(['lobby', '4']), '<txt-record>groups=lobby,4</txt-record>')
  t.notMatch(groupOf([]), 'txt-record')
  t.match(groupOf(of32.slice(0, 7)), `<txt-record>groups=${of32.slice(0, 7).join(',')}</txt-record>`)
  t.match(groupOf(of32), `<txt-record>groups=${of32.slice(0, 7).join(',')}</txt-record>`)
  // The record has 255 bytes: 7 of the name, and 248.
  const full = [...of32.slice(0, 7), 'i'.repeat(17)]
  t.match(groupOf(full), `<txt-record>groups=${full.join(',')}</txt-record>`)
  t.notMatch(groupOf([...of32.slice(0, 7), 'i'.repeat(18)]), 'iii')
})

t.test('avahi-browse --parsable', async t => {
  const line =
    '=;eth0;IPv4;Gro\\195\\159er\\032Raum\\.\\059;_receiverd._tcp;local;receiver-1.local;192.0.2.7;8080;"serial=1;2" "model=a\\"b=c" "flag"'
  t.same(foundIn(line), {
    name: 'Großer Raum.;',
    host: 'receiver-1.local',
    address: '192.0.2.7',
    port: 8080,
    txt: { serial: '1;2', model: 'a"b=c', flag: '' },
  })
  for (const other of ['', '+;eth0;IPv4;Room;_receiverd._tcp;local', '=;a;b;c;d;e;f;g;port;', 'nonsense'])
    t.equal(foundIn(other), undefined, other)
})
