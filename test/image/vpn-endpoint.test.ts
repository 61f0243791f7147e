/** A peer that moved is found again by its name, and one that answers is left where it is. Both ends are wireguard-go(1). */
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { NEEDS_ROOT, needs } from '../support/needs.ts'
import { examples } from '../support/readme.ts'
import { portOf, startWireGuard, wg } from '../support/wireguard.ts'

const SCRIPT = join(REPOSITORY, 'build/image/overlay/usr/local/sbin/vpn-endpoint')
const [NETDEV = ''] = examples('build/image/README.md', 'Across networks', 'ini')
const NO_TUNNELS = !existsSync('/dev/net/tun') && 'run where there are tunnels'

/** Where the owner's server was before: nobody answers there. */
const OLD = '127.0.0.2:9'

/** getent(1) where a name has addresses of both kinds, as it prints them. */
const GETENT = `#!/bin/sh
[ "$2" = owner.example ] || exec /usr/bin/getent "$@"
for address in 2001:db8::1 192.0.2.1 192.0.2.2; do
	for kind in STREAM DGRAM RAW; do printf '%-15s %-6s owner.example\\n' $address $kind; done
done
`

t.test(
  'the endpoint of a tunnel is looked up again',
  { skip: NEEDS_ROOT || needs('ip', 'wg', 'wireguard-go') || NO_TUNNELS },
  async t => {
    const [device, server] = ['d', 's'].map(end => `rd-${end}${process.pid % 10_000}`) as [string, string]
    const peerOfServer = await startWireGuard(t, device)
    const peer = await startWireGuard(t, server)
    for (const name of [device, server]) execFileSync('ip', ['link', 'set', name, 'up'])
    const port = await portOf(server)
    wg('set', server, 'peer', peerOfServer, 'allowed-ips', '10.99.0.7/32')
    const move = () => wg('set', device, 'peer', peer, 'endpoint', OLD, 'persistent-keepalive', '1')
    const endpoint = () => wg('show', device, 'endpoints').split('\t')[1]
    move()
    const folder = temporaryFolder(t)
    const file = join(folder, 'wg0.netdev')
    const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` }
    writeFileSync(join(folder, 'getent'), GETENT, { mode: 0o755 })
    /** Runs the script with the tunnel's file of the README, as somebody wrote it. */
    const lookUp = (endpoint: string, write = (text: string) => text) => {
      const text = NETDEV.replace(/^PublicKey=.*$/m, `PublicKey=${peer}`).replace(
        /^Endpoint=.*$/m,
        `Endpoint=${endpoint}`,
      )
      t.match(text, `Endpoint=${endpoint}`)
      writeFileSync(file, write(text))
      return execFileSync(SCRIPT, [file], { encoding: 'utf8', stdio: 'pipe', env })
    }

    lookUp('name.invalid:51820')
    t.equal(endpoint(), OLD, 'a name that cannot be looked up changes nothing')
    lookUp(`127.0.0.1:${port}`, text => text.replace(peer, peerOfServer))
    t.equal(endpoint(), OLD, 'nor does the endpoint of another peer')

    t.comment('while nobody answers, one address of a name is tried after the other')
    for (const address of ['[2001:db8::1]', '192.0.2.1', '192.0.2.2', '[2001:db8::1]']) {
      lookUp('owner.example:9')
      t.equal(endpoint(), `${address}:9`)
    }
    move()

    lookUp(
      `localhost:${port}`,
      text => `# Endpoint=127.0.0.3:9\n${text.replace(/=(.)/g, ' = $1').replaceAll('\n', '\r\n')}`,
    )
    t.match(endpoint(), /^(127\.0\.0\.1|\[::1\]):/, 'blanks and the line ends of Windows make no difference')
    await eventually(() => !wg('show', device, 'latest-handshakes').endsWith('\t0'))

    move()
    lookUp(`localhost:${port}`)
    t.equal(endpoint(), OLD, 'a peer that answered less than three minutes ago is left alone')
  },
)
