import { everyWritableSetting } from './every-setting.ts'
import { failureContract } from './failure-contract.ts'

everyWritableSetting(({ write }) => write !== undefined, failureContract)
