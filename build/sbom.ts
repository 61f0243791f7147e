// Prints a bill of materials (CycloneDX) of what is in the bundle. It is npm's own, with nothing in it that differs from
// one build of the same commit to the next.
import { execFileSync } from 'node:child_process'
import { buildTime } from './build-time.ts'

const options = ['--sbom-format=cyclonedx', '--sbom-type=application', '--omit=dev', '--package-lock-only']
const sbom = JSON.parse(execFileSync('npm', ['sbom', ...options], { encoding: 'utf8' }))
delete sbom.serialNumber
sbom.metadata.timestamp = new Date(buildTime() * 1000).toISOString()
sbom.metadata.component.name = 'receiverd'
sbom.metadata.component.version = process.env.VERSION || sbom.metadata.component.version
console.log(JSON.stringify(sbom, undefined, 2))
