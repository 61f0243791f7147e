/** Every text of the page, so that it can be translated. Texts of the device (descriptions, errors) stay as they are. */

const CLOSED: Readonly<Record<string, string>> = {
  expired: 'Your token has expired. Ask for a new one, or sign in with another credential.',
  'key replaced': 'The API key of this device was replaced. Sign in with the new key, or with a token made from it.',
  'clock not set': 'The clock of this device is not set, so it cannot accept tokens with a limited validity.',
  'not yet valid': 'Your token is not valid yet.',
}

/** A name that others have chosen: its direction does not spread to the text around it (Unicode Standard Annex 9). */
const isolated = (name: string) => `\u2068${name}\u2069`

const plural = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

export const texts = {
  product: 'Receiver',
  noAnswer: 'The device does not answer. If you were changing something, check whether it has changed.',
  status: (status: number) => `The device answered with status ${status}.`,
  closed: (reason: string) => CLOSED[reason] ?? `The device ended the connection: ${reason}.`,

  connecting: 'Connecting…',
  retrying: 'The device does not answer. Trying again…',
  connections: { connected: 'Connected', lost: 'Not connected', restarting: 'Restarting' },
  connectionHelp: {
    lost: 'Not connected to the device. This page may be out of date. Trying again…',
    restarting: 'The device is restarting. This page continues by itself when the device is back.',
  },
  refusedAfterRestart:
    'The device has restarted, and no longer accepts this credential. If it was reset, sign in with its new API key, which is on its screen.',
  tryNow: 'Try now',
  skip: 'Skip to the content',
  views: 'Views',
  signOut: 'Sign out',
  openLinkTitle: 'Use the link?',
  signOutTitle: 'Sign out without saving?',
  unsavedLost: 'The settings that you have changed are not saved.',

  signIn: 'Sign in',
  signInHelp:
    'Paste the API key of this device, or a token made from it. A lost key is printed by “receiverd key show” on the device, or replaced by receiver.txt on its card.',
  credential: 'API key or token',
  show: 'Show',
  staySignedIn: 'Stay signed in',
  staySignedInHelp: 'Only on a phone or computer that nobody else uses.',
  credentialMissing: 'Paste the API key or a token first.',
  notACredential: 'This is neither an API key nor a token.',
  expiresSoon: (time: string) =>
    `Your token expires at ${time}. To go on after that, ask for a new one, or sign in with another credential.`,
  grantsNothing: 'This token is accepted, but it grants nothing that this page shows.',

  sessions: 'Sessions',
  waiting: 'Waiting to be let in',
  mirroring: 'Mirroring',
  nobodyWaits: 'No device is waiting.',
  nobodyMirrors: 'No device is mirroring.',
  phonesSee: 'Phones find this receiver as',
  notModerated:
    'Everybody may mirror without being let in. To decide yourself, choose “A moderator lets devices in” under Settings, Moderation.',
  sessionStates: { pending: 'waiting', admitted: 'let in, connecting', active: 'mirroring' },
  gone: {
    denied: 'Turned away.',
    ended: 'Ended.',
    left: 'Stopped mirroring.',
    withdrawn: 'Withdrew, or was turned away by somebody else.',
    timedOut: 'Nobody decided in time.',
  },
  letIn: (isHere: boolean) => (isHere ? 'Let in.' : 'Let in by somebody else.'),
  leftOf: (state: string, ms: number) => {
    const seconds = Math.max(0, Math.ceil(ms / 1000))
    return state === 'pending' ? `denied in ${seconds} s` : `${seconds} s left to connect`
  },
  protocolOf: (protocol: string) =>
    (({ airplay: 'AirPlay', miracast: 'Miracast', cast: 'Cast' }) as Readonly<Record<string, string>>)[protocol] ??
    protocol,
  modelOf: (model: string) =>
    /^(iPhone|iPad|iPod|MacBookPro|MacBookAir|MacBook|iMac|Macmini|MacPro|Mac)(?=\d)/.exec(model)?.[1] ?? model,
  unnamed: 'Unnamed device',
  allow: 'Let in',
  deny: 'Deny',
  end: 'End',
  allowing: 'Letting in…',
  denying: 'Denying…',
  ending: 'Ending…',
  allowed: (name: string) => `${isolated(name)} may mirror.`,
  denied: (name: string) => `${isolated(name)} was turned away.`,
  ended: (name: string) => `The session of ${isolated(name)} was ended.`,
  asks: (name: string) => `${isolated(name)} is waiting to be let in.`,
  replaceTitle: 'Replace the device that is mirroring?',
  replace: 'Replace',
  summary: (waiting: number, mirroring: number) =>
    waiting > 0 ? `${waiting} waiting` : mirroring > 0 ? `${mirroring} mirroring` : 'Nobody is mirroring',
  sinceNow: 'just now',
  minutes: (count: number) => plural(count, 'minute', 'minutes'),
  hours: (count: number) => plural(count, 'hour', 'hours'),
  days: (count: number) => plural(count, 'day', 'days'),

  settings: 'Settings',
  general: 'General',
  generalHelp: 'Names, language and time zone of the device.',
  save: 'Save',
  discard: 'Discard',
  saving: 'Saving…',
  saved: 'Saved.',
  unsaved: 'Unsaved changes',
  readOnlySettings: 'Your token can read the settings, but not change them.',
  refused: 'Not saved. Each mistake is explained at its field.',
  changedElsewhere: (value: string) => `Changed elsewhere to ${value}.`,
  useIt: 'Use that',
  yes: 'Yes',
  no: 'No',
  none: 'none',
  empty: 'empty',
  add: 'Add',
  remove: 'Remove',
  item: (label: string, number: number) => `${label}, ${number}`,
  other: 'Other…',
  otherRegions: 'Other',
  wholeNumber: 'Enter a whole number.',
  number: 'Enter a number.',
  range: (from: number, to: number) => `Enter a whole number from ${from} to ${to}.`,
  json: 'Enter valid JSON.',
  onPage: 'On this page',

  settingsFile: 'Save and load',
  settingsFileHelp:
    'A file of the settings, for this or another receiver. Passwords are never in it, nor is the list of Wi-Fi networks.',
  withIdentity: 'Include names and addresses, to replace this device',
  saveSettings: 'Save settings',
  loadSettings: 'Load settings',
  notSettings: {
    foreign: 'This is not a file that “Save settings” has made.',
    newer: 'A newer version has made this file. Update this device first.',
  },
  nothingToLoad: 'No setting would change.',
  leftOut: 'This device cannot take:',
  loadThese: 'Load',
  loadRest: 'Load the rest',

  trialTitle: 'Checking the connection',
  trial: 'The change has been made. If this page can still reach the device, it is kept. Otherwise it is undone.',
  trialLeft: (seconds: number) => `Undone in ${seconds} s unless the device can be reached.`,
  trialMoved: 'The device does not answer at this address any more. It should be at',
  trialKept: 'Saved. The device can still be reached.',
  trialKeptThere:
    'The device can be reached here, and the change is kept. You are signed in for ten minutes; after that, sign in with the API key.',
  trialLate: 'The change was not confirmed in time, so the device has undone it.',
  revertedBecause: (reason: string) =>
    reason === 'restarted'
      ? 'The device was restarted before the change was confirmed, so it was undone:'
      : reason === 'cancelled'
        ? 'The change was undone before it was confirmed:'
        : 'The change was not confirmed in time, so the device has undone it:',
  notUndone: 'These could not be undone:',
  trialUnknown: 'The device did not answer in time. It undoes the change by itself.',
  close: 'Close',
  cancel: 'Cancel',

  knownNetworks: 'Networks, in order of preference',
  noKnownNetworks: 'None yet.',
  foundNetworks: 'Networks that were found',
  scan: 'Look for networks',
  scanning: 'Looking…',
  networksFound: (count: number) =>
    count === 0 ? 'No network was found.' : `${plural(count, 'network', 'networks')} found.`,
  otherNetwork: 'Another network…',
  otherNetworkTitle: 'Join another network',
  ssid: 'Name of the network',
  password: 'Password',
  passwordHelp: '8 to 63 characters.',
  passwordOrNone: '8 to 63 characters; empty for an open network.',
  hidden: 'hidden',
  join: 'Join',
  joinTitle: (name: string) => `Join ${isolated(name)}`,
  joined: (name: string) => `Saved. The device is in ${isolated(name)}.`,
  notJoined: (name: string) =>
    `The device could not join ${isolated(name)}, so the change was undone. Check the password, and try nearer to the access point.`,
  openTitle: (name: string) => `Join ${isolated(name)} without a password?`,
  openWarning:
    'The network is open: anybody near it can listen, and anybody can set up another one of that name for the device to join.',
  joinOpen: 'Join anyway',
  prefer: 'Prefer',
  removeTitle: (name: string) => `Remove ${isolated(name)}?`,
  removeWarning: 'The device forgets the password, and leaves the network.',
  tooManyNetworks: (count: number) => `The device keeps ${count} networks. Remove one first.`,
  connectedNow: 'connected',
  securities: {
    open: 'open',
    psk: 'password',
    sae: 'password (WPA3)',
    enterprise: 'company login, which cannot be set here',
    other: 'protection that cannot be set here',
  },
  signals: { strong: 'strong signal', good: 'good signal', weak: 'weak signal' },

  access: 'Access',
  newToken: 'New token',
  newTokenHelp:
    'Gives somebody limited access, by a link or a QR code. It works until it expires, or until the API key is replaced.',
  tokenFor: 'Role',
  tokenRoles: {
    moderator: 'Moderator: lets devices in',
    watcher: 'Observer: sees the sessions',
    admin: 'Administrator: all settings',
    viewer: 'Auditor: sees the settings',
  },
  tokenExpiry: 'Valid for',
  tokenExpiries: { '1h': '1 hour', '8h': '8 hours', '1d': '1 day', '30d': '30 days', '365d': '1 year' },
  tokenForever: 'Until the key is replaced',
  tokenSubject: 'Name',
  tokenSubjectHelp: 'Optional. The name of its holder, shown in the log.',
  makeToken: 'Make a token',
  tokenMade: 'Your new token',
  tokenOnce: 'Shown only now: copy the link, or scan the code with a phone. Both open this page, signed in.',
  tokenUntil: (when: string) => `Valid until ${when}.`,
  token: 'Token',
  link: 'Link that signs in',
  qrCode: 'QR code of the link that signs in',
  keyQrCode: 'QR code of a link that signs in with the new key',
  copy: 'Copy',
  copied: 'Copied.',
  notCopied: 'Your browser did not copy it. It is selected: copy it from there.',
  done: 'Done',
  replaceKey: 'Replace the API key',
  replaceKeyHelp:
    'Replace the key if it, or a token, is in the wrong hands. Every token and link made so far stops working at once.',
  replaceKeyTitle: (name: string) => `Replace the API key of ${name}?`,
  replaceKeyWarning:
    'Everybody but you is signed out at once. Panels, scripts and moderators need the new key, or tokens made from it. This cannot be undone.',
  replacingKey: 'The device does not answer. This page keeps asking until it knows whether the device has the new key.',
  keyReplaced: 'The new API key',
  keyReplacedHelp:
    'It is in force, and this page uses it. It is shown only now: keep it in a safe place, or scan the code with a phone, which signs the phone in. Anybody who has it controls the device.',
  apiKey: 'API key',

  certificate: 'Certificate',
  certificateHelp:
    'A program that pins this key accepts only this device. First check that the pin below is the one on its screen.',
  pin: 'Pin of this device',
  tryPin: 'Test it with curl',

  statusView: 'Status',
  now: 'Now',
  statusNames: {
    version: 'Version',
    bootedAt: 'Started',
    uptimeS: 'Running for',
    clockSet: 'Clock is set',
    temperatureC: 'Temperature',
    load: 'Load, 1, 5 and 15 minutes',
    memory: 'Memory in use',
    storage: 'Storage in use',
    streams: 'Event streams',
    heldPolls: 'Long polls',
    connections: 'Connections',
    sessions: 'Sessions',
    keyStored: 'API key is stored',
    certificatePin: 'Certificate pin',
    wifi: 'Wi-Fi',
  } as Readonly<Record<string, string>>,
  usedOf: (used: string, total: string, isReadOnly: boolean) =>
    isReadOnly ? 'Read-only: nothing can be changed. Restart the device, or replace its card.' : `${used} of ${total}`,

  operations: 'Maintenance',
  confirmOperation: (operation: string, device: string) => `${operation}: ${device}?`,
  typeName: (name: string) => `Type “${name}” to confirm`,
  started: (operation: string) => `${operation}: started.`,

  logs: 'Log',
  unit: 'Source',
  allUnits: 'All',
  priority: 'Minimum level',
  priorities: ['Emergency', 'Alert', 'Critical', 'Error', 'Warning', 'Notice', 'Information', 'Debug'],
  lines: 'Lines',
  search: 'Contains',
  refresh: 'Refresh',
  download: 'Download',
  noLines: 'No matching lines.',
  follow: 'Follow',
  logLines: (count: number, timeZone: string) =>
    `${plural(count, 'line', 'lines')}, newest first. Times are in ${timeZone}.`,

  /** Names of settings that do not become good labels by themselves. */
  names: {
    airplay: 'AirPlay',
    audio: 'Sound',
    dns: 'Name servers',
    firmware: 'System',
    hostname: 'Host name',
    ip: 'IP',
    mac: 'Hardware address',
    maxResolution: 'Largest picture',
    ntp: 'Network time',
    ssh: 'Remote login',
    timeoutS: 'Time to decide, in seconds',
    timezone: 'Time zone',
    up: 'Connected',
    wifi: 'Wi-Fi',
    present: 'Plugged in',
  } as Readonly<Record<string, string>>,
  /** What stands below a control, where the device's own description goes by values that have other labels here. */
  helps: {
    'network.method': 'Whether the network assigns address and gateway.',
    'network.address':
      'With its prefix length, such as 192.0.2.10/24. Others in the file of the interface are kept, unless the method changes.',
    'network.gateway': 'Of the router, or empty for none.',
    'network.dns': 'In order of preference. With “Automatic (DHCP)”, in addition to those of the network.',
    'airplay.access': 'A code prevents mistakes and is no protection: a client can skip it. One set elsewhere is kept.',
    'moderation.approval': 'Whether devices must be let in.',
  } as Readonly<Record<string, string>>,
  /** Labels of values, by the name of their setting. */
  values: {
    'approval.none': 'Everybody may mirror',
    'approval.moderator': 'A moderator lets devices in',
    'access.open': 'Open',
    'access.pin': 'With a code on the screen',
    'method.dhcp': 'Automatic (DHCP)',
    'method.static': 'Fixed address',
    'rotation.0': 'None',
    'rotation.90': '90° clockwise',
    'rotation.180': '180°',
    'rotation.270': '90° counter-clockwise',
  } as Readonly<Record<string, string>>,
} as const
