import type { JsonValue } from '../../src/json.ts'

/** Two values that are accepted on test/fixtures/receiver and differ from each other; the first also from the one set there. */
export type GoodValues = readonly [JsonValue, JsonValue]

/** The connectors of the receiver, with a mode and a rotation for the first. */
function displayOf(mode: string, rotation: number): JsonValue {
  const rates = ['1920x1080@60', '1920x1080@50', '1920x1080@30', '1920x1080@24', '1280x720@60', '1280x720@50']
  const modes = [...rates, '720x576@50', '720x480@60', '640x480@60']
  return {
    'HDMI-A-1': { present: true, monitor: 'Lobby TV', modes, mode, rotation },
    'HDMI-A-2': { present: false, monitor: '', modes: [], mode: 'preferred', rotation: 0 },
  }
}

/** The interfaces of the receiver. Their read-only members must not change. */
const ETH0 = {
  present: true,
  mac: 'dc:a6:32:7e:40:01',
  up: true,
  method: 'dhcp',
  address: '',
  gateway: '',
  addresses: ['192.0.2.40/24'],
}

const WLAN0 = {
  present: true,
  mac: 'dc:a6:32:7e:40:02',
  up: false,
  method: 'dhcp',
  address: '',
  gateway: '',
  dns: [],
  addresses: [],
}

/** Values for each setting that can be written. */
export const VALUES: Readonly<Record<string, GoodValues>> = {
  hostname: ['lobby', 'meeting-room-5.example.org'],
  deviceName: ['Großer Saal "7" \\ $HOME 🎬', 'Lobby'],
  groups: [['ground-floor', '4', '-', 'a'.repeat(32)], []],
  timezone: ['Asia/Tokyo', 'America/New_York'],
  locale: ['nl_BE.UTF-8', 'C.UTF-8'],
  ntp: [
    { enabled: false, servers: ['ntp.example.net', '192.0.2.1', '2001:db8::1'] },
    { enabled: true, servers: [] },
  ],
  network: [
    {
      eth0: { ...ETH0, method: 'static', address: '192.0.2.40/24', gateway: '192.0.2.1', dns: ['192.0.2.2'] },
      wlan0: WLAN0,
    },
    { eth0: { ...ETH0, dns: ['192.0.2.3', '2001:db8::2'] }, wlan0: WLAN0 },
  ],
  // Open ones: a password reads otherwise than it is written.
  wifi: [
    {
      country: 'DK',
      networks: [
        { ssid: 'Großer Saal "7" \\ 🎬', password: '', hidden: true },
        { ssid: 'Guests', password: '', hidden: false },
      ],
      present: true,
      connected: '',
    },
    { country: '', networks: [{ ssid: 'Guests', password: '', hidden: true }], present: true, connected: '' },
  ],
  display: [displayOf('1280x720@60', 0), displayOf('preferred', 270)],
  // Volumes that are steps of the driver, which has 31.
  audio: [
    { volume: 52, muted: true },
    { volume: 26, muted: false },
  ],
  airplay: [
    { enabled: false, name: 'Großer Saal "7" 🎬', access: 'pin', maxResolution: '1280x720', restartPending: false },
    { enabled: true, name: '', access: 'open', maxResolution: '', restartPending: false },
  ],
  moderation: [
    { approval: 'moderator', timeoutS: 45 },
    { approval: 'none', timeoutS: 600 },
  ],
  ssh: [{ enabled: false }, { enabled: true }],
  // Without a query: it reads otherwise than it is written.
  update: [
    {
      channel: 'https://updates.example.net/receiver%20$HOME.raucb',
      policy: 'install',
      window: { days: ['mon', 'fri'], from: '23:30', to: '01:00' },
    },
    { channel: 'http://[2001:db8::1]:8080/stable', policy: 'check', window: { days: [], from: '', to: '' } },
  ],
}
