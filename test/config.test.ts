import t from 'tap'
import { readConfig, requireNode, unknownVariables } from '../src/config.ts'

t.test('the command line comes before the environment, and the environment before the default', async t => {
  const listen = (flags: object, env: object) => readConfig({ root: '/', ...flags }, { ...env }, 1).listen
  t.same(listen({}, {}), [{ host: '127.0.0.1', port: 8080 }])
  t.same(listen({}, { RECEIVERD_LISTEN: '' }), [{ host: '127.0.0.1', port: 8080 }], 'an empty variable counts as unset')
  t.same(listen({}, { RECEIVERD_LISTEN: '[::]:80' }), [{ host: '::', port: 80 }])
  t.same(listen({ listen: 'panel.example:81' }, { RECEIVERD_LISTEN: '[::]:80' }), [{ host: 'panel.example', port: 81 }])
  t.same(listen({ listen: '[::]:80' }, { LISTEN_PID: '1', LISTEN_FDS: '1' }), [{ fd: 3 }], 'a socket from systemd')
  const several = { LISTEN_PID: '1', LISTEN_FDS: '3', LISTEN_FDNAMES: 'receiverd.socket:engines:receiverd.socket' }
  t.same(listen({}, several), [{ fd: 3 }, { fd: 5 }], 'all of them')
  t.same(readConfig({ root: '/' }, several, 1).engines, [{ fd: 4 }], 'but for that of the engines')
  t.same(listen({}, { LISTEN_PID: '2', LISTEN_FDS: '1' }), [{ host: '127.0.0.1', port: 8080 }], 'of another process')
  t.throws(() => listen({ listen: '[::]:99999' }, {}), { message: '--listen: the port 99999 is not from 0 to 65535' })
})

t.test('with more streams there are more connections, unless their number is given', async t => {
  const connections = (env: object) => readConfig({ root: '/' }, { ...env }, 1).limits.connections
  t.equal(connections({}), 1_024)
  t.equal(connections({ RECEIVERD_STREAMS: '2000' }), 4_000)
  t.equal(connections({ RECEIVERD_STREAMS: '2000', RECEIVERD_CONNECTIONS: '2100' }), 2_100)
})

t.test(
  'origins are compared as browsers send them: in lower case, in Punycode, and without the usual port',
  async t => {
    const origins = (value: string) => readConfig({ root: '/' }, { RECEIVERD_ORIGINS: value }, 1).origins
    for (const [given, sent] of [
      ['https://Panel.example', 'https://panel.example'],
      ['https://panel.example:443', 'https://panel.example'],
      ['http://panel.example:80', 'http://panel.example'],
      ['http://panel.example:443', 'http://panel.example:443'],
      ['https://bücher.example', 'https://xn--bcher-kva.example'],
    ] as const)
      t.strictSame(origins(given), [sent], given)
    t.throws(() => origins('https://panel.example:99999'), {
      message: /"https:..panel.example:99999" is not an origin/,
    })
  },
)

t.test('a variable that is not an option is named, with the one that was meant', async t => {
  const named = (...names: string[]) => unknownVariables(Object.fromEntries(names.map(name => [name, '1'])))
  t.same(named('PATH', 'STATE_DIRECTORY', 'RECEIVERD_LISTEN', 'RECEIVERD_ROOT', 'RECEIVERD_ORIGINS'), [])
  t.same(named('RECEIVERD_EVENTS', 'RECEIVERD_LEEWAY_S'), [])
  t.same(named('RECEIVERD_STREAM', 'RECEIVERD_ROTO'), [
    'RECEIVERD_STREAM is not an option and has no effect; did you mean RECEIVERD_STREAMS?',
    'RECEIVERD_ROTO is not an option and has no effect; did you mean RECEIVERD_ROOT?',
  ])
  t.same(named('RECEIVERD_VERBOSE'), [
    'RECEIVERD_VERBOSE is not an option and has no effect; see receiverd serve --help',
  ])
})

t.test('needs a Node that the tests run on', async t => {
  for (const version of ['20.11.0', '20.20.2', '22.1.0', '100.0.0']) t.doesNotThrow(() => requireNode(version), version)
  for (const version of ['18.20.8', '20.10.0', '8.0.0'])
    t.throws(() => requireNode(version), { message: /^Node 20\.11 or later is needed/ }, version)
})
