import { isWritable } from '../../hal/setting.ts'
import { everyWritableSetting } from './every-setting.ts'
import { runningContract } from './running-contract.ts'

everyWritableSetting(isWritable, runningContract)
