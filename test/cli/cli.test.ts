import t from 'tap'
import { parseCommand } from '../../src/cli/cli.ts'
import { helpFor } from '../../src/cli/help.ts'
import { UsageError } from '../../src/usage-error.ts'

const VERSION = '1.2.3'
const parse = (line: string) => parseCommand(line.split(' ').filter(Boolean), VERSION)

t.test('a mistake is named, with what was probably meant', async t => {
  const cases: readonly (readonly [line: string, message: string])[] = [
    ['', 'missing command; see receiverd --help'],
    ['key', 'key: missing command, show or rotate; see receiverd key --help'],
    ['start', 'unknown command "start"; see receiverd --help'],
    ['key sho', 'unknown command "key sho"; did you mean key show?'],
    ['key drop', 'unknown command "key drop"; see receiverd key --help'],
    ['kye', 'unknown command "kye"; did you mean key?'],
    ['tokn admin:r', 'unknown command "tokn admin:r"; did you mean token?'],
    ['foo --help', 'unknown command "foo"; see receiverd --help'],
    ['key sho --help', 'unknown command "key sho"; did you mean key show?'],
    ['help foo', 'unknown command "foo"; see receiverd --help'],
    ['config', 'config: missing command, save or load; see receiverd config --help'],
    ['config sav', 'unknown command "config sav"; did you mean config save?'],
    ['config drop', 'unknown command "config drop"; see receiverd config --help'],
    ['constructor', 'unknown command "constructor"; see receiverd --help'],
    ['config load', 'config load: missing FILE; see receiverd config --help'],
    ['update', 'update: missing command, status, install, discard or rollback; see receiverd update --help'],
    ['update instal a.raucb', 'unknown command "update instal a.raucb"; did you mean update install?'],
    ['update install', 'update install: missing FILE; see receiverd update --help'],
    ['update install a b', 'update install takes one file: "b"'],
    ['update install -', 'update install: FILE must be a file, because its size is sent first: "-"'],
    ['update install --restart later a.raucb', '--restart: "later" is none of now, window, manual'],
    ['update rollback a', 'update rollback takes no argument: "a"'],
    ['update status --yes', 'update status has no option --yes; see receiverd update --help'],
    ['config load a b', 'config load takes one file: "b"'],
    ['config save a b', 'config save takes one file: "b"'],
    ['config save --yes', 'config save has no option --yes; see receiverd config --help'],
    ['serve foo', 'serve takes no argument: "foo"'],
    ['key show extra', 'key show takes no argument: "extra"'],
    ['token admin:r', 'token takes no argument: "admin:r"; did you mean --role admin:r?'],
    ['token root:r', 'token takes no argument: "root:r"'],
    [
      'session --protocol miracast mirror',
      'session takes no argument: "mirror"; put the command after --, as in: receiverd session … -- mirror',
    ],
    ['serve -- mirror', 'unexpected argument "--"; see receiverd --help'],
    ['token --roles admin:r', 'token has no option --roles; did you mean --role?'],
    ['token --nonsense', 'token has no option --nonsense; see receiverd token --help'],
    ['key rotate --verbose', 'key rotate has no option --verbose; see receiverd key --help'],
    ['key show --listen 127.0.0.1:1', 'key show has no option --listen; see receiverd key --help'],
    ['serve --rot /', 'serve has no option --rot; did you mean --root?'],
    ['serve -x', 'serve has no option -x; see receiverd serve --help'],
    ['--roles admin:r', 'receiverd has no option --roles; did you mean --role?'],
    ['--nonsense', 'receiverd has no option --nonsense; see receiverd --help'],
    ['-x', 'receiverd has no option -x; see receiverd --help'],
    ['serve --constructor', 'serve has no option --constructor; see receiverd serve --help'],
    ['serve --listen', "Option '--listen <value>' argument missing; see receiverd --help"],
    ['token', '--role: a token needs at least one role, such as --role admin:r; see receiverd token --help'],
  ]
  for (const [line, message] of cases) t.throws(() => parse(line), new UsageError(message), line)
})

t.test('help is asked for in several ways', async t => {
  const cases: readonly (readonly [line: string, topic: string | undefined])[] = [
    ['--help', undefined],
    ['-h', undefined],
    ['help', undefined],
    ['help help', undefined],
    ['help serve', 'serve'],
    ['help key', 'key'],
    ['help key show', 'key'],
    ['key help', 'key'],
    ['key rotate --help', 'key'],
    ['token admin:r --help', 'token'],
    ['help session', 'session'],
    ['config --help', 'config'],
    ['update --help', 'update'],
    ['help update install', 'update'],
    ['help config load', 'config'],
    ['config load a --help', 'config'],
  ]
  for (const [line, topic] of cases) t.same(parse(line), { name: 'print', text: helpFor(topic) }, line)
  t.same(parse('serve --version'), { name: 'print', text: 'receiverd 1.2.3\n' })
})

t.test('settings are saved in a file, or printed, and loaded from one', async t => {
  t.match(parse('config save'), { name: 'config save', file: undefined, withIdentity: false })
  t.match(parse('config save a.json --with-identity'), { file: 'a.json', withIdentity: true })
  t.match(parse('config load a.json'), { file: 'a.json', options: { isSure: false, isPartial: false } })
  t.match(parse('config load -y --partial -'), { file: '-', options: { isSure: true, isPartial: true } })
})

t.test('an update is installed as it is told, or undone', async t => {
  const asking = { isSure: false, allowOlder: false, restart: undefined }
  t.match(parse('update status'), { name: 'update status' })
  t.match(parse('update install a.raucb'), { name: 'update install', file: 'a.raucb', choices: asking })
  t.match(parse('update install -y --restart window --allow-older a.raucb'), {
    choices: { isSure: true, allowOlder: true, restart: 'window' },
  })
  t.match(parse('update rollback'), { name: 'update rollback', isSure: false })
  t.match(parse('update rollback --yes'), { isSure: true })
  t.match(parse('update discard -y'), { name: 'update discard', isSure: true })
})

t.test('a command that is not ours is taken as it is', async t => {
  t.match(parse('session --protocol miracast --name Pixel -- mirror help --nonsense'), {
    name: 'session',
    session: { argv: ['mirror', 'help', '--nonsense'] },
  })
})
