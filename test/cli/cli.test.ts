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
  ]
  for (const [line, topic] of cases) t.same(parse(line), { name: 'print', text: helpFor(topic) }, line)
  t.same(parse('serve --version'), { name: 'print', text: 'receiverd 1.2.3\n' })
})

t.test('a command that is not ours is taken as it is', async t => {
  t.match(parse('session --protocol miracast --name Pixel -- mirror help --nonsense'), {
    name: 'session',
    session: { argv: ['mirror', 'help', '--nonsense'] },
  })
})
