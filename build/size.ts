// Prints what is in the bundle. Fails if it is over budget, or if it contains a module that does not belong there.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Metafile } from 'esbuild'

/**
 * Limit on the bundle without the page. Firmware updates take 77,000 of it, issuers 13,500, certificates of an authority 9,000,
 * and the metrics for alerts about updates and temporary storage 310. Issuers from the card take 1,200, and coping with what
 * the system temporarily refuses 1,050. The last 200 are for recognizing a device that hides its line in UxPlay's log, and for
 * ending a connection with its last answer. An installation whose end RAUC does not report takes 100. Tunnels, which do not
 * count at a trial, take 270. 220 are for distinguishing an installation that was not started, or broke off, from a completed
 * one, and 330 for a bundle that a restart finds installed, or being installed. 200 are for a disk that does not record when
 * the channel was asked, and for the reason why a policy was not followed. Descriptions that name their subject take 1,000.
 * Options of UxPlay that keep their names when they move to a line of their own take 250, and connections that end
 * in stages 200. A restart that waits for the network takes 400, and discarding an installed version 2,800. A version that
 * could not be loaded takes 250, and engines that cannot be watched yet 300. Trying again takes 3,600: 1,700 to undo a change,
 * 1,100 for settings of the card after a factory reset, 770 to ask a channel and to remember versions that must not be tried again.
 * Keys that browsers refuse take 30, and records of issuers that are gone, and files set aside, 350. A certificate that waits
 * for the end of a trial takes 250. 2,850 are for telling which device is connected to UxPlay, so that decisions and changes
 * interrupt no other one, and for PINs that stay on the screen. Giving up an update that comes no further takes 440, leaving
 * masked addresses out of saved settings 70, and not replacing what was set since the card failed, and an amixer that says
 * nothing, 300. A change for a trial that is half done takes 250, and units that wait for others 100. 4,220 are for telling
 * the connection of a device from older ones, for a UxPlay that does not listen, and for a device that does not come in.
 * 600 are for a bundle that is replaced, or whose token expires, while a command installs it, and for issuers that are removed
 * before a new key fails to be stored. A name in mDNS that follows the host name takes 330.
 * Finding the service wherever it listens takes 900, and no address where only a server of the owner has one 180. Time servers
 * in other files take 260, a device without its page 120, and the limit on logs that nobody reads 260. To say whether AirPlay
 * is ready takes 700. A card that cannot be read, and storage that refuses a certificate, take 100. Listening on
 * each socket that systemd passes takes 360, and telling the other commands of one that they reach 130. A trial of the version
 * that somebody goes back to takes 820, and not fetching a discarded one again 220. A value that could not be put back takes 250,
 * a card whose interface comes late 140, and a subject that looks like a record 130. Trying a version less often that cannot be
 * installed takes 600, asking RAUC again 250, and the end of a trial that the kernel does not tell 130. Undoing
 * what another version changed takes 510, putting back what another change of the same setting leaves alone 460, and a journal
 * that storage fails to read 480. Refusing a key that a restart would take back takes 250, and a judge that uses no key 40.
 * Setting aside a certificate once an hour at most, and renewing one without a clock, take 170.
 * Letting clients read their last answers at a stop takes 510, and a request that waits for the response before it 60.
 * Not changing a setting in part that cannot be read takes 200, a gateway of the other family that stays 380, a name of AirPlay that
 * follows the host name 40, countries that do not exist 100, and ending all that the command of a session has started 400.
 * Saying that a change may still be made takes 220, not loading settings that others have changed 290, the metric of a static
 * address on Wi-Fi 700, what waits on the card for the end of a trial 170, and heeding preconditions of a bundle 280.
 * Telling a service that ends the connection from one that is missing takes 180, and noticing that a bundle changes while it is
 * sent 320.
 * Keeping the known networks when the card brings another one takes 160.
 */
const BUDGET_BYTES = 472_430
/** HTML, style and script of the page, before they are compressed. */
const PAGE_BUDGET_BYTES = 110_000
/**
 * The same as they are sent, compressed. The list of issuers takes 350 of it, and the words about an update 450. Not to lose
 * what others change, a key or an upload, to go by the device's clock, and to offer a reload for a new certificate take 900.
 * Questions about links without a credential, and about other tabs, take 200. Keeping a new key until its fate is known takes 250,
 * following a change to the new address until it is kept or undone 350, and reading issuers and the certificate again 100.
 * A decision whose answer is lost takes 10, not to go on after signing out 30, a list that takes no second tap 15, and a
 * password that can be corrected 75. Naming the new address of a device that was reached at its old one takes 75,
 * and noticing that a change never arrived 170. A known network that is out of range takes 65,
 * and hiding what the device no longer has 80. Noticing that the device's clock has jumped takes 40,
 * and offering the update as soon as the device can tell of it 105. Waiting while a token is refused only for now takes 315.
 * Following a device whose new address the network assigns, and telling somebody else's change apart, take 250.
 */
const SENT_BUDGET_BYTES = 35_760
const PAGE = 'build/out/page'
/**
 * Everything that may be in the bundle: our own code, without the owner's program, and the parts of two packages that it uses.
 * TypeBox's `value` is not among them, because it is twice the size of `schema`, nor is `compile`, which needs `new Function`.
 */
const ALLOWED = [
  /^(src(?!\/fleet\/)|hal)\//,
  /^node_modules\/@noble\/hashes\/(_md|_u64|hmac|sha2|utils)\.js$/,
  /^node_modules\/typebox\/build\/(format|guard|schema(?!\/compile\.mjs)|system|type)\//,
]
/** Of these, tls is loaded only if there is a certificate to check. */
const ALLOWED_BUILTINS =
  /^node:(child_process|crypto|events|fs|http|net|os|path|stream|stream\/promises|timers\/promises|tls|tty|util|zlib)$/

const metafile: Metafile = JSON.parse(readFileSync('build/out/metafile.json', 'utf8'))
const [output] = Object.values(metafile.outputs)
if (!output) throw new Error('build/out/metafile.json lists no bundle: run make build')

const sizes = new Map<string, number>()
const foreign: string[] = []
for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
  if (!ALLOWED.some(allowed => allowed.test(path))) foreign.push(path)
  const room = /^(node_modules\/(?:@[^/]+\/)?[^/]+(?:\/build\/[^/]+)?|src\/[^/.]+|[^/]+)/.exec(path)?.[0] ?? path
  sizes.set(room, (sizes.get(room) ?? 0) + bytesInOutput)
}
for (const { path } of output.imports) if (!ALLOWED_BUILTINS.test(path)) foreign.push(path)

for (const [room, bytes] of [...sizes].sort((a, b) => b[1] - a[1])) console.log(String(bytes).padStart(8), room)
// The page is a module of its own, so that its strings are counted separately.
const pageInBundle = output.inputs['src/api/built-page.ts']?.bytesInOutput ?? 0
const assets = readdirSync(join(PAGE, 'assets'))
const bytesOf = (names: readonly string[]) =>
  names.reduce((sum, name) => sum + statSync(join(PAGE, 'assets', name)).size, 0)
const html = readFileSync(join(PAGE, 'index.html'))
const pageBytes = html.length + bytesOf(assets.filter(name => !name.endsWith('.gz')))
const sentBytes = gzipSync(html, { level: 9 }).length + bytesOf(assets.filter(name => name.endsWith('.gz')))

const totals = [
  ['in total without the page', output.bytes - pageInBundle, BUDGET_BYTES],
  ['the page', pageBytes, PAGE_BUDGET_BYTES],
  ['the page as sent', sentBytes, SENT_BUDGET_BYTES],
] as const
let isOver = false
for (const [what, bytes, budget] of totals) {
  console.log(String(bytes).padStart(8), `${what}; the budget is ${budget}`)
  if (bytes > budget)
    console.error(
      `over budget by ${bytes - budget} bytes: ${what}; if it is worth that, raise the budget in build/size.ts, with the reason`,
    )
  isOver ||= bytes > budget
}
if (foreign.length > 0) console.error(`not allowed in the bundle: ${foreign.join(', ')}`)
process.exitCode = foreign.length > 0 || isOver ? 1 : 0
