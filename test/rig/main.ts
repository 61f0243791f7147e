/** Boots a machine, prints how to reach it, and keeps it until Ctrl-C or the end of input. Needs root. */
import { NO_RIG } from './available.ts'
import { Disk } from './disk.ts'
import { installFiles, Rig } from './rig.ts'

if (NO_RIG) {
  console.error(`rig: ${NO_RIG}`)
  process.exit(1)
}
const disk = await Disk.create()
const rig = new Rig(disk)
await disk.install()
installFiles(disk)
const seconds = await rig.boot()
console.log(`booted in ${seconds.toFixed(1)} s

  API      ${rig.url}
  API key  ${rig.key}
  page     ${rig.url}/#key=${rig.key}
  AirPlay  ${rig.address}
  shell    nsenter ${rig.enter.join(' ')} bash

Mirror to it, in another terminal:
  npx tsx test/engines/airplay/main.ts --host ${rig.address} --come-back --stay 60

Have devices ask before they mirror:
  curl -X PATCH -H 'Authorization: Bearer ${rig.key}' -H 'Content-Type: application/json' -d '{"moderation":{"approval":"moderator"}}' ${rig.url}/api/v1/system

See who asks, let it in, and end it:
  curl -H 'Authorization: Bearer ${rig.key}' ${rig.url}/api/v1/sessions
  ID=…
  curl -X POST -H 'Authorization: Bearer ${rig.key}' ${rig.url}/api/v1/sessions/$ID/admit
  curl -X DELETE -H 'Authorization: Bearer ${rig.key}' ${rig.url}/api/v1/sessions/$ID
`)
const ended = new Promise(resolve => process.stdin.on('end', resolve).resume())
const interrupted = new Promise(resolve => process.once('SIGINT', resolve))
await Promise.race([ended, interrupted])
await rig.close()
process.exit()
