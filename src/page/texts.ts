/** Every text of the page, so that it can be translated. Texts of the device (descriptions, errors) stay as they are. */

const CLOSED: Readonly<Record<string, string>> = {
  expired: 'Your token has expired. Ask for a new one, or sign in with another credential.',
  'key replaced': 'The API key of this device was replaced. Sign in with the new key, or with a token made from it.',
}

/**
 * A name that others have chosen: its direction does not spread to the text around it (Unicode Standard Annex 9), and it ends
 * only at its end.
 */
const isolated = (name: string) => `\u2068${name.replace(/[\u202a-\u202e\u2066-\u2069]/g, '')}\u2069`

const plural = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`
export const product = 'Receiver'
export const noAnswer = 'The device does not answer. If you were changing something, check whether it has changed.'
export const status = (status: number) => `The device answered with status ${status}.`
export const closed = (reason: string) => CLOSED[reason] ?? `The device ended the connection: ${reason}.`

export const connecting = 'Connecting…'
export const retrying = 'The device does not answer. Trying again…'
export const connections = {
  connected: 'Connected',
  connecting,
  lost: 'Not connected',
  restarting: 'Restarting',
  refused: 'Not accepted yet',
} as const
export const connectionHelp = {
  lost: 'Not connected to the device. This page may be out of date. Trying again…',
  restarting: 'The device is restarting. This page continues by itself when the device is back.',
} as const
export const stillTrying =
  'The device is not back yet. Leave it switched on: if a version does not work, the device tries it up to three times, and then goes back to the version before. That may take half an hour.'
export const otherPage = 'The device was updated, and has another version of this page.'
export const reload = 'Reload'
export const newCertificate =
  'If the device remains unreachable, it may have a new certificate. Your browser asks about that when you reload the page.'
export const refusedAfterRestart =
  'The device has restarted, and no longer accepts this credential. If it was reset, sign in with the new API key on its screen.'
export const refusedForNow = (why: string) => `${why} Trying again…`
export const tryNow = 'Try now'
export const skip = 'Skip to the content'
export const views = 'Views'
export const signOut = 'Sign out'
export const openLinkTitle = 'Use the link?'
export const signOutTitle = 'Sign out?'
export const signedInElsewhere = 'Somebody signed in or out in another tab. Do the same here?'
export const followOther = 'Do the same'
export const unsavedLost = 'Your changes are not saved.'
export const keyPending = 'The API key is being replaced. If you leave now, the new one may be lost.'
export const keyShown = 'Copy the new API key first: it is shown only now.'
export const sendingLost = 'The file is still being sent.'

export const signIn = 'Sign in'
export const signInHelp =
  'Paste the API key of this device, or a token made from it. A lost key is printed by “receiverd key show” on the device, or replaced by receiver.txt on its card.'
export const credential = 'API key or token'
export const show = 'Show'
export const staySignedIn = 'Stay signed in'
export const staySignedInHelp = 'Only on a phone or computer that nobody else uses.'
export const credentialMissing = 'Paste the API key or a token first.'
export const notACredential = 'This is neither an API key nor a token.'
export const expiresSoon = (time: string) =>
  `Your token expires at ${time}. To go on after that, ask for a new one, or sign in with another credential.`
export const grantsNothing = 'This token is accepted, but it grants nothing that this page shows.'

export const sessions = 'Sessions'
export const waiting = 'Waiting to be let in'
export const mirroring = 'Mirroring'
export const nobodyWaits = 'No device is waiting.'
export const nobodyMirrors = 'No device is mirroring.'
export const phonesSee = 'Phones find this receiver as'
export const notModerated =
  'Everybody may mirror. To decide yourself, choose “A moderator lets devices in” under Settings, Moderation.'
export const sessionStates = { pending: 'waiting', admitted: 'let in, connecting', active: 'mirroring' } as const
export const gone = {
  denied: 'Turned away.',
  ended: 'Ended.',
  active: 'Stopped mirroring.',
  admitted: 'Never connected.',
  withdrawn: 'Withdrew, or was turned away by somebody else.',
  timedOut: 'Nobody decided in time.',
} as const
export const letIn = (isHere: boolean) => (isHere ? 'Let in.' : 'Let in by somebody else.')
export const leftOf = (state: string, ms: number) => {
  const seconds = Math.max(0, Math.ceil(ms / 1000))
  return state === 'pending' ? `denied in ${seconds} s` : `${seconds} s left to connect`
}
export const protocolOf = (protocol: string) =>
  (({ airplay: 'AirPlay', miracast: 'Miracast', cast: 'Cast' }) as Readonly<Record<string, string>>)[protocol] ??
  protocol
export const modelOf = (model: string) =>
  /^(iPhone|iPad|iPod|MacBookPro|MacBookAir|MacBook|iMac|Macmini|MacPro|Mac)(?=\d)/.exec(model)?.[1] ?? model
export const unnamed = 'Unnamed device'
export const allow = {
  text: 'Let in',
  doing: 'Letting in…',
  done: (name: string) => `${isolated(name)} may mirror.`,
} as const
export const deny = {
  text: 'Deny',
  doing: 'Denying…',
  done: (name: string) => `${isolated(name)} was turned away.`,
} as const
export const end = {
  text: 'End',
  doing: 'Ending…',
  done: (name: string) => `The session of ${isolated(name)} was ended.`,
} as const
export const asks = (name: string) => `${isolated(name)} is waiting to be let in.`
export const replaceTitle = 'Replace the device that is mirroring?'
export const replace = 'Replace'
export const summary = (waiting: number, mirroring: number) =>
  waiting > 0 ? `${waiting} waiting` : mirroring > 0 ? `${mirroring} mirroring` : 'Nobody is mirroring'
export const sinceNow = 'just now'
export const minutes = (count: number) => plural(count, 'minute', 'minutes')
export const hours = (count: number) => plural(count, 'hour', 'hours')
export const days = (count: number) => plural(count, 'day', 'days')

export const settings = 'Settings'
export const general = 'General'
export const generalHelp = 'Names, language and time zone of the device.'
export const save = 'Save'
export const discard = 'Discard'
export const saving = 'Saving…'
export const saved = 'Saved.'
export const unsaved = 'Unsaved changes'
export const readOnlySettings = 'Your token can read the settings, but not change them.'
export const refused = 'Not saved. Each mistake is explained at its field.'
export const changedElsewhere = (value: string) => `Changed elsewhere to ${value}.`
export const useIt = 'Use that'
export const yes = 'Yes'
export const no = 'No'
export const none = 'none'
export const empty = 'empty'
export const add = 'Add'
export const remove = 'Remove'
export const item = (label: string, number: number) => `${label}, ${number}`
export const other = 'Other…'
export const otherRegions = 'Other'
export const wholeNumber = 'Enter a whole number.'
export const number = 'Enter a number.'
export const range = (from: number, to: number) => `Enter a whole number from ${from} to ${to}.`
export const timeOfDay = 'Enter a whole time, or none.'
export const json = 'Enter valid JSON.'
export const onPage = 'On this page'

export const settingsFile = 'Save and load'
export const settingsFileHelp =
  'A file of the settings, for this or another receiver. Passwords are never in it, nor is the list of Wi-Fi networks.'
export const withIdentity = 'Include names and addresses, to replace this device'
export const saveSettings = 'Save settings'
export const loadSettings = 'Load settings'
export const notSettings = {
  foreign: 'This is not a file from “Save settings”.',
  newer: 'This file is from a newer version. Update this device first.',
} as const
export const nothingToLoad = 'No setting would change.'
export const leftOut = 'This device cannot take:'
export const loadThese = 'Load'
export const loadRest = 'Load the rest'

export const trialTitle = 'Checking the connection'
export const trial =
  'The change has been made. If this page can still reach the device, it is kept. Otherwise it is undone.'
export const trialUnsure =
  'The change may have been made: the device has not answered. If it was made, and this page can reach the device, it is kept.'
export const notSent =
  'Nothing was changed: the device does not tell whether another change waits to be kept. Save it again.'
export const trialNone = 'The change is not on the device: it did not arrive, or was undone. Save it again.'
export const trialLeft = (seconds: number) => `Undone in ${seconds} s unless the device can be reached.`
export const trialMoved = 'The device does not answer at this address any more. It should be at'
export const movedTitle = 'The device has another address'
export const moved = 'The change is kept, and the device is now at'
export const trialKept = 'Saved. The device can still be reached.'
export const trialKeptThere =
  'The device can be reached here, and the change is kept. You are signed in for ten minutes; after that, sign in with the API key.'
export const trialSignIn = 'Sign in to keep the change. Otherwise the device undoes it soon.'
export const keepTitle = 'Keep the change?'
export const keepHelp =
  'Somebody has made a change after which the device may be out of reach. Unless it is kept, the device undoes it soon.'
export const keepIt = 'Keep it'
export const trialLate = 'The change was not confirmed in time, so the device has undone it.'
export const noTrial = 'The device shows no change that waits to be kept. Unless it was kept before, it is undone.'
export const revertedBecause = (reason: string) =>
  reason === 'restarted'
    ? 'The device was restarted before the change was confirmed, so it was undone:'
    : reason === 'cancelled'
      ? 'The change was undone before it was confirmed:'
      : 'The change was not confirmed in time, so the device has undone it:'
export const notUndone = 'These could not be undone:'
export const trialUnknown = 'The device did not answer in time. It undoes the change by itself.'
export const close = 'Close'
export const cancel = 'Cancel'

export const knownNetworks = 'Networks, in order of preference'
export const noKnownNetworks = 'None yet.'
export const foundNetworks = 'Networks that were found'
export const scan = 'Look for networks'
export const scanning = 'Looking…'
export const networksFound = (count: number) =>
  count === 0 ? 'No network was found.' : `${plural(count, 'network', 'networks')} found.`
export const otherNetwork = 'Another network…'
export const otherNetworkTitle = 'Join another network'
export const ssid = 'Name of the network'
export const password = 'Password'
export const passwordHelp = '8 to 63 characters.'
export const passwordOrNone = '8 to 63 characters; empty for an open network.'
export const hidden = 'hidden'
export const join = 'Join'
export const joinTitle = (name: string) => `Join ${isolated(name)}`
export const joined = (name: string) => `Saved. The device is in ${isolated(name)}.`
export const notJoined = (name: string) =>
  `The device could not join ${isolated(name)}, so the change was undone. Check the password, and try nearer to the access point.`
export const knownButAway = (name: string) =>
  `The device knows ${isolated(name)} already, but is not in it: nothing was changed. Try nearer to the access point.`
export const openTitle = (name: string) => `Join ${isolated(name)} without a password?`
export const openWarning =
  'The network is open: anybody near it can listen, and anybody can set up another one of that name for the device to join.'
export const joinOpen = 'Join anyway'
export const prefer = 'Prefer'
export const removeTitle = (name: string) => `Remove ${isolated(name)}?`
export const removeWarning = 'The device forgets the password, and leaves the network.'
export const tooManyNetworks = (count: number) => `The device keeps ${count} networks. Remove one first.`
export const connectedNow = 'connected'
export const securities = {
  open: 'open',
  psk: 'password',
  sae: 'password (WPA3)',
  enterprise: 'company login, which cannot be set here',
  other: 'protection that cannot be set here',
} as const
export const signals = { strong: 'strong signal', good: 'good signal', weak: 'weak signal' } as const

const known = (version = 'an unknown version') => version
type Version = string | undefined
export const update = 'Update'
export const versions = 'This device'
export const runs = 'Running'
export const otherSystem = 'Other system'
export const versionIn = (version: Version, slot: string) => `${known(version)}, system ${slot}`
export const otherStates = {
  good: known,
  bad: (version?: string) => (version ? `${version} cannot be started` : 'cannot be started'),
  empty: (_: Version) => empty,
} as const
export const onTrial =
  'This version is on trial for up to five minutes: unless everything works, the device goes back by itself.'
export const beingWritten = 'being written'
export const testKeys =
  'This device accepts versions that were signed with test keys: whoever has those keys can replace its software.'
export const goBack = (version: Version) => `Go back to ${known(version)}`
export const goTo = (version: Version) => `Go to ${known(version)}`
export const wentBack = (version: string) => `The device went back from version ${version}, as somebody asked it to.`
export const outcomes = {
  installed: (version: string) => `Version ${version} was installed, and works.`,
  failed: (version: string) => `Version ${version} was not installed.`,
  discarded: (version: string) => `Version ${version} was discarded.`,
  'rolled back': (version: string) =>
    `Version ${version} did not work. The device has gone back to the one before, with all settings.`,
} as const
export const reason = (reason: string) => `Reason: ${reason}.`
export const readIt = 'I have read this'

export const newVersion = 'New version'
export const newVersionHelp = 'A file that ends in .raucb. Sending and installing it take some minutes each.'
const coming = () => 'A new version is coming in, which takes some minutes.'
export const restartTakes = 'The restart takes about two minutes, and a trial up to five more.'
export const sameVersion = (version: Version) => `Version ${known(version)} is here. The same version runs already.`
export const activities = {
  idle: () => '',
  receiving: coming,
  downloading: coming,
  downloaded: (version: Version) => `Version ${known(version)} is here, and can be installed.`,
  installing: (version: Version) =>
    `Version ${known(version)} is being installed, which takes some minutes. If the power fails, the device starts as before.`,
  installed: (version: Version) => `Version ${known(version)} is installed. It starts when the device restarts.`,
  restarting: () => restartTakes,
  failed: (version: Version) => (version ? `${outcomes.failed(version)} It is still here.` : ''),
} as const satisfies Record<string, (version: Version) => string>
export const waitsFor = {
  window: (window: string | undefined) => `That is in its window: ${window}.`,
  sessions: (window: string | undefined) => `That is once nobody is mirroring, in its window: ${window}.`,
  network: (window: string | undefined) => `That is once it has its network again, in its window: ${window}.`,
  clock: () => 'That is once its clock is set.',
} as const satisfies Record<string, (window: string | undefined) => string>
export const windowOf = (days: string, from: string, to: string) => `${days || 'every day'}, ${from} to ${to}`
export const partThere = (got: string, whole: string, name: string) =>
  `${got} of ${whole} are here. To go on, choose ${name ? isolated(name) : 'the same file'} again.`
export const sending = 'This takes some minutes. Leave the page open: after a break, it goes on by itself.'
export const verifying = 'The device is checking the file, which takes less than a minute.'
export const progressOf = (done: string, whole: string) => `${done} of ${whole}`
export const timeLeft = (minutes: number) =>
  minutes < 1 ? ', less than a minute left' : `, about ${plural(minutes, 'minute', 'minutes')} left`
export const chooseFile = 'Choose a file'
export const checkNow = 'Check now'
export const inChannel = (version: string, when: string) => `The channel has ${version} (${when}).`
export const install = 'Install'
export const installTitle = (version: Version) => `Install ${known(version)}?`
export const restartWhen = 'Restart'
export const restarts = { window: 'In the window', manual: 'Later, by hand', now: 'At once: mirroring ends' } as const
export const restartNow = 'Restart now'
export const restartHelp = 'Mirroring ends. The device is back in about two minutes.'
export const discardVersion = (version: Version) => `${discard} ${known(version)}`
export const discardHelp = (running: Version) => `It will not start. The device stays with ${known(running)}.`
export const installOlderTitle = (version: Version) => `Install ${known(version)} anyway?`
export const installAnyway = 'Install it anyway'
export const olderHelp = 'It is older than the version that runs, and may lack security fixes.'
export const otherFile = 'This is another file. Choose the one that was begun, or discard it.'
export const uploadBroken = 'Sending breaks off each time.'

export const access = 'Access'
export const newToken = 'New token'
export const newTokenHelp =
  'Gives somebody limited access, by a link or a QR code. It works until it expires, or until the API key is replaced.'
export const tokenFor = 'Role'
export const tokenRoles = {
  moderator: 'Moderator: lets devices in',
  watcher: 'Observer: sees the sessions',
  admin: 'Administrator: all settings',
  viewer: 'Auditor: sees the settings',
} as const
export const tokenExpiry = 'Valid for'
export const tokenExpiries = {
  '1h': '1 hour',
  '8h': '8 hours',
  '1d': '1 day',
  '30d': '30 days',
  '365d': '1 year',
} as const
export const tokenForever = 'Until the key is replaced'
export const tokenSubject = 'Name'
export const tokenSubjectHelp = 'Optional. The name of its holder, shown in the log.'
export const makeToken = 'Make a token'
export const tokenMade = 'Your new token'
export const tokenOnce =
  'Shown only now: copy the link, or scan the code with a phone. Both open this page, signed in. The browser keeps the link in its history.'
export const validUntil = (when: string) => `Valid until ${when}.`
export const token = 'Token'
export const link = 'Link that signs in'
export const qrCode = 'QR code of the link that signs in'
export const keyQrCode = 'QR code of a link that signs in with the new key'
export const copy = 'Copy'
export const copied = 'Copied.'
export const notCopied = 'Your browser did not copy it. It is selected: copy it from there.'
export const done = 'Done'
export const replaceKey = 'Replace the API key'
export const replaceKeyHelp =
  'Replace the key if it, or a token, is in the wrong hands. Every token and link made from it stops working at once.'
export const replaceKeyTitle = (name: string) => `Replace the API key of ${isolated(name)}?`
export const replaceKeyWarning =
  'Everybody but you is signed out at once. Panels, scripts and moderators need the new key, or tokens made from it. This cannot be undone.'
export const replacingKey =
  'The device does not answer. This page keeps asking until it knows whether the device has the new key.'
export const keyReplaced = 'The new API key'
export const keyReplacedHelp =
  'It is in force, and this page uses it. It is shown only now: keep it in a safe place, or scan the code with a phone, which signs the phone in. The phone’s browser keeps the link in its history. Anybody who has the key controls the device.'
export const apiKey = 'API key'

export const issuers = 'Issuers'
export const issuersHelp =
  'The device accepts the tokens that they make, and a new API key does not change that: remove those that you do not know.'
export const removeIssuers = 'Also remove the issuers that were added with the API key'
export const issuersStay = (names: string) => `These issuers stay, and their tokens are accepted: ${names}.`
export const issuerSources = { image: 'from the image', card: 'from the card', api: 'added with the API key' } as const
export const removeIssuerWarning = 'Its tokens are refused at once.'

export const certificate = 'Certificate'
export const certificateHelp =
  'A program that pins this key accepts only this device. First check that the pin below is the one on its screen.'
export const pin = 'Pin of this device'
export const tryPin = 'Test it with curl'

export const statusView = 'Status'
export const now = 'Now'
export const statusNames = {
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
  airplayReady: 'AirPlay is ready',
  certificatePin: 'Certificate pin',
  wifi: 'Wi-Fi',
} as Readonly<Record<string, string>>
export const usedOf = (used: string, total: string) => `${used} of ${total}`
export const airplayNotReady = 'No. If that does not change, the log says why.'
export const storageReadOnly = 'Read-only: nothing can be changed. Restart the device, or replace its card.'
export const storageTemporary =
  'Its partition cannot be used: the settings may be those of a new device, and a restart loses changes. Restart it, or replace its card.'

export const operations = 'Maintenance'
export const confirmOperation = (operation: string, device: string) => `${operation}: ${isolated(device)}?`
export const typeName = (name: string) => `Type “${isolated(name)}” to confirm`
export const started = (operation: string) => `${operation}: started.`

export const logs = 'Log'
export const unit = 'Source'
export const allUnits = 'All'
export const priority = 'Minimum level'
export const priorities = [
  'Emergency',
  'Alert',
  'Critical',
  'Error',
  'Warning',
  'Notice',
  'Information',
  'Debug',
] as const
export const lines = 'Lines'
export const search = 'Contains'
export const refresh = 'Refresh'
export const download = 'Download'
export const noLines = 'No matching lines.'
export const follow = 'Follow'
export const logLines = (count: number, timeZone: string) =>
  `${plural(count, 'line', 'lines')}, newest first. Times are in ${timeZone}.`

/** Names of settings that do not become good labels by themselves. */
export const names = {
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
} as Readonly<Record<string, string>>
/** The text below a control whose description on the device names values that have other labels here. */
export const helps: Readonly<Record<string, string>> = {
  'network.method': 'Whether the network assigns address and gateway.',
  'network.address':
    'With its prefix length, such as 192.0.2.10/24. Others in the file of the interface are kept, unless the method changes.',
  'network.gateway': 'Of the router, or empty for none.',
  'network.dns': 'In order of preference. With “Automatic (DHCP)”, in addition to those of the network.',
  'airplay.access': 'A code prevents mistakes and is no protection: a client can skip it. One set elsewhere is kept.',
  'moderation.approval': 'Whether devices must be let in.',
  'update.days': 'On which the window begins. None of them: every day.',
  'update.policy': 'Once a day, by itself. It restarts only in the window, and while nobody mirrors.',
}
/** Labels of values, by the name of their setting. */
export const values = {
  'days.mon': 'Monday',
  'days.tue': 'Tuesday',
  'days.wed': 'Wednesday',
  'days.thu': 'Thursday',
  'days.fri': 'Friday',
  'days.sat': 'Saturday',
  'days.sun': 'Sunday',
  'policy.off': 'Nothing',
  'policy.check': 'Look for a new version',
  'policy.download': 'Download new versions',
  'policy.install': 'Download and install new versions',
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
} as Readonly<Record<string, string>>
