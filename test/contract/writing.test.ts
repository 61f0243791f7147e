import { everyWritableSetting } from './every-setting.ts'
import { writingContract } from './writing-contract.ts'

everyWritableSetting(({ write }) => write !== undefined, writingContract)
