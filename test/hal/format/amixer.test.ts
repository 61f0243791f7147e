import { test } from 'tap'
import { cardNumbers, playbackControl } from '../../../hal/format/amixer.ts'

/** As printed by alsa-utils 1.2.8: `amixer -M -D sysdefault scontents`. */
const PI_HEADPHONES = `Simple mixer control 'PCM',0
  Capabilities: pvolume pvolume-joined pswitch pswitch-joined
  Playback channels: Mono
  Limits: Playback -10239 - 400
  Mono: Playback -2000 [52%] [-20.00dB] [on]
`
const HDA = `Simple mixer control 'Headphone',0
  Capabilities: pvolume pswitch
  Playback channels: Front Left - Front Right
  Limits: Playback 0 - 87
  Front Left: Playback 87 [100%] [0.00dB] [on]
  Front Right: Playback 87 [100%] [0.00dB] [on]
Simple mixer control 'Master',0
  Capabilities: pvolume pvolume-joined pswitch pswitch-joined
  Playback channels: Mono
  Limits: Playback 0 - 87
  Mono: Playback 44 [33%] [-32.25dB] [off]
Simple mixer control 'Capture',0
  Capabilities: cvolume cswitch
  Capture channels: Front Left - Front Right
  Limits: Capture 0 - 63
  Front Left: Capture 63 [100%] [30.00dB] [on]
  Front Right: Capture 63 [100%] [30.00dB] [on]
Simple mixer control 'Auto-Mute Mode',0
  Capabilities: enum
  Items: 'Disabled' 'Enabled'
  Item0: 'Enabled'
`
const SOFT_VOLUME = `Simple mixer control 'PCM',0
  Capabilities: pvolume
  Playback channels: Front Left - Front Right
  Limits: Playback 0 - 255
  Mono:
  Front Left: Playback 230 [90%] [-5.00dB]
  Front Right: Playback 255 [100%] [0.00dB]
`
const HEADSET = `Simple mixer control 'Mic Boost',0
  Capabilities: volume
  Playback channels: Front Left - Front Right
  Capture channels: Front Left - Front Right
  Limits: 0 - 3
  Front Left: 3 [100%] [30.00dB]
  Front Right: 3 [100%] [30.00dB]
Simple mixer control 'The 'Set'',1
  Capabilities: pvolume cvolume pswitch cswitch
  Playback channels: Front Left - Front Right
  Capture channels: Front Left - Front Right
  Limits: Playback 0 - 31 Capture 0 - 15
  Front Left: Playback 16 [52%] [on] Capture 15 [100%] [off]
  Front Right: Playback 8 [26%] [off] Capture 15 [100%] [off]
`
const COMMON = `Simple mixer control 'Master',0
  Capabilities: volume volume-joined switch switch-joined
  Playback channels: Mono
  Capture channels: Mono
  Limits: 0 - 31
  Mono: 0 [0%] [off]
`

test('the playback control and its volume are found', t => {
  for (const [what, text, expected] of [
    ['mono', PI_HEADPHONES, { id: "'PCM',0", volume: 52, muted: false, hasSwitch: true }],
    ['one for all before one of several', HDA, { id: "'Master',0", volume: 33, muted: true, hasSwitch: true }],
    ['no switch; the loudest channel', SOFT_VOLUME, { id: "'PCM',0", volume: 100, muted: false, hasSwitch: false }],
    ['by its capability', HEADSET, { id: `"The 'Set'",1`, volume: 52, muted: false, hasSwitch: true }],
    ['playback and capture in one', COMMON, { id: "'Master',0", volume: 0, muted: true, hasSwitch: true }],
    ['none', "Simple mixer control 'IEC958',0\n  Capabilities: pswitch\n  Mono: Playback [on]\n", undefined],
    ['no controls', '', undefined],
    ['nonsense', 'Simple mixer control\n\0[50%]', undefined],
  ] as const)
    t.same(playbackControl(text), expected, what)
  t.end()
})

test('the numbers of the cards are found', t => {
  const cards = ' 0 [Headphones     ]: bcm2835_headpho - bcm2835 Headphones\n                      bcm2835 Headphones\n'
  t.same(cardNumbers(`${cards}10 [vc4hdmi0       ]: vc4-hdmi - vc4-hdmi-0\n                      vc4-hdmi-0\n`), [
    '0',
    '10',
  ])
  t.same(cardNumbers('--- no soundcards ---\n'), [])
  t.same(cardNumbers(''), [])
  t.end()
})
