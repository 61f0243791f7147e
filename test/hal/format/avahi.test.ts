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
