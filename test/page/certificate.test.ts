/** The page's text on the certificate that this device made for itself, on a real systemd with nginx in front. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { NO_RIG } from '../rig/available.ts'
import { startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { goTo, valueIn, waitForText } from './steps.ts'

const skip = missingBrowser('shell') || NO_RIG

t.test('how programs pin the certificate', { skip }, async t => {
  const rig = await startRig(t, { isTls: true })
  const url = `https://${rig.address}/`
  const browser = await startBrowser(t, 'shell', ['--ignore-certificate-errors'])
  const verbose = await eventually(async () => {
    const said = await rig.receiverd('key', 'show', '--verbose')
    return said.includes('sha256//') && said
  })
  const { page, offences } = await openTab(browser, `${url}#key=${rig.key}`)
  await goTo(page, 'Access')
  await waitForText(page, 'Certificate')
  const pin = await valueIn(page, 'Certificate', 'Pin of this device')
  t.match(verbose, `sha256//${pin}`, 'the same as on the device')
  const command = await valueIn(page, 'Certificate', 'Test it with curl')
  const { stdout } = await promisify(execFile)('sh', ['-c', command])
  t.match(JSON.parse(stdout), { openapi: '3.1.0' }, 'the command as pasted')
  t.strictSame(offences, [])
})
