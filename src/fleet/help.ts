/** The help text of a command; of the program itself for anything else. */
export function helpFor(command: string | undefined): string {
  return (command !== undefined && HELPS.get(command)) || HELP
}

const COMMON = `Options:
  --fleet FILE         the fleet file (default fleet.yaml)
  --group GROUP        only devices of this group; may be given more than once
  --device NAME        only this device, besides those of --group; may be given
                       more than once
  --json               print one JSON document on stdout
  --at-once N          how many devices at once, 1 to 200 (default 20)
  --timeout S          seconds that a device has to answer, 1 to 600 (default 10);
                       a change has four times as long
`

const CHANGING = `${COMMON}  --yes, -y            do not ask
  --waves SIZES        devices in each wave, such as 2,10,rest; the last number
                       repeats (default 1,rest)
  --keep-going         go on after a failure
`

const STATUS = `Exit status: 0 success; 1 a device failed, or was not begun because of another;
2 usage error, also in the fleet file; 130 interrupted.
`

const HELP = `receiverd-fleet manages many receivers, listed in one file: fleet.yaml.

Usage:
  receiverd-fleet list         list the devices, and how each is doing
  receiverd-fleet diff         say what apply would change
  receiverd-fleet apply        give each device the settings in the file, in
                               waves, after asking
  receiverd-fleet run OPERATION
                               identify, reboot or restart-receiver, in waves
  receiverd-fleet update BUNDLE
                               install a firmware bundle, in waves, after asking
  receiverd-fleet discard-update
                               keep a new version from starting, in waves, after
                               asking
  receiverd-fleet rotate-keys  replace the API key of each device
  receiverd-fleet backup FOLDER
                               save the settings of each device in a file
  receiverd-fleet restore FOLDER
                               load them again, in waves, after asking
  receiverd-fleet discover     print a fleet file with the receivers on this
                               network
  receiverd-fleet add-issuer NAME FILE
                               have each device accept the tokens of an issuer,
                               in waves, after asking
  receiverd-fleet remove-issuer NAME
                               have each device refuse them again
  receiverd-fleet token        make a token of an issuer
  receiverd-fleet certificates
                               print the certificates of the devices, for
                               programs that know no pins
  receiverd-fleet targets      print the devices as targets for Prometheus
  receiverd-fleet inventory    print the devices for Ansible
  receiverd-fleet bridge       show the devices on an MQTT broker, for Home
                               Assistant
  receiverd-fleet --version    print the version
  receiverd-fleet COMMAND --help
                               list the options of a command

Results are on stdout, progress and failures on stderr. Ctrl-C begins no further
device and waits for those under way; a second one ends at once.

${STATUS}`

const LIST = `receiverd-fleet list: list the devices, and how each is doing.

Usage: receiverd-fleet list [OPTION]...

The digest is that of the configuration: devices with the same settings have the
same. The state is one of:

  ok
  on trial    a change waits to be confirmed
  read-only   the storage refuses changes
  not stored  a restart loses the settings or the API key
  not ready   AirPlay is switched on, but nobody can mirror: UxPlay starts, or
              its log says why not
  failed      and why

${COMMON}
${STATUS}`

const DIFF = `receiverd-fleet diff: say what apply would change, and change nothing.

Usage: receiverd-fleet diff [OPTION]...

Each device checks the settings itself. A password cannot be read, so it counts
as a difference.

${COMMON}
Exit status: 0 no device differs; 3 one does; 1 a device failed, or refuses its
settings; 2 usage error, also in the fleet file; 130 interrupted.
`

const APPLY = `receiverd-fleet apply: give each device the settings in the file.

Usage: receiverd-fleet apply [OPTION]...

Says what would change, asks, and goes through the devices in waves. After a
wave with a failure it stops. Devices that already have their settings are not
touched, so the same command resumes where an earlier one stopped. A device that
cannot be reached is left out; one that refuses its settings stops the command
before anything has changed.

A change that can cut a device off, of its host name, network or Wi-Fi, is on
trial: the device undoes it within a minute unless it can be reached afterwards.

${CHANGING}  --confirm            every change is on trial

${STATUS}`

const RUN = `receiverd-fleet run: have each device carry out an operation.

Usage: receiverd-fleet run OPERATION [OPTION]...

OPERATION is identify (the screen shows the name, an LED blinks), reboot, or
restart-receiver (the programs that mirror; sessions end). A device that has
accepted it counts as done.

${CHANGING}
${STATUS}`

const ROTATE = `receiverd-fleet rotate-keys: replace the API key of each device.

Usage: receiverd-fleet rotate-keys [OPTION]...

Every token that was made from an old key is revoked. The new keys are written
to the key file first, as NAME,KEY,NEXT; an old key is removed when its device is
known to have the new one. While a line has two keys, every command tries both,
and the same command finishes what was interrupted. Keep the key file: nobody
can get into a device whose key is lost, except with its card.

Tokens of issuers stay valid: the report names the issuers of each device. Give
--remove-issuers if a key has leaked, because whoever had it may have added an
issuer of their own.

${COMMON}  --yes, -y            do not ask
  --remove-issuers     also remove the issuers that were added with an API key;
                       those of the image and of the card stay

${STATUS}`

const BACKUP = `receiverd-fleet backup: save the settings of each device.

Usage: receiverd-fleet backup [OPTION]... FOLDER

Writes FOLDER/NAME.json for each device, in place of an earlier one. The files
have no passwords; they are those of the page and of receiverd config save.

${COMMON}  --with-identity      also save names and addresses

${STATUS}`

const RESTORE = `receiverd-fleet restore: load settings that backup has saved.

Usage: receiverd-fleet restore [OPTION]... FOLDER

Each device gets FOLDER/NAME.json, as apply gives it the settings of the fleet
file: it says what would change, asks, and stops after a wave with a failure.

${CHANGING}  --confirm            every change is on trial

${STATUS}`

const UPDATE = `receiverd-fleet update: install a firmware bundle on each device.

Usage: receiverd-fleet update [OPTION]... BUNDLE

Sends the bundle, has the device install it and restart, and waits until the new
version has proved good there. A device that goes back by itself has failed. One
that already has the version of the bundle's manifest is left alone. (If the
manifest cannot be read here, because the bundle's format is not verity, each
device gets the bundle.) One that has installed it is restarted at most, and an
interrupted upload is resumed. Bundles are for one board: choose its devices with
--group.

${CHANGING}  --restart WHEN       when the devices restart: now (default), window (of the
                       setting update) or manual; the last two are not waited for
  --allow-older        install a version that is older than the running one

${STATUS}`

const DISCARD_UPDATE = `receiverd-fleet discard-update: keep a new version from starting.

Usage: receiverd-fleet discard-update [OPTION]...

If a version that was installed for the window turns out to be bad: the devices
on which it has not started yet discard it, and stay with the version that runs.
A bundle that has not been installed yet is removed. A device on which the new
version runs is left alone.

${CHANGING}
${STATUS}`

const DISCOVER = `receiverd-fleet discover: print a fleet file with the receivers on this network.

Usage: receiverd-fleet discover [--json]

Needs avahi-utils, and avahi-daemon running. The file has what the devices claim:
if others use the network, compare the pins with receiverd key show --verbose on
the devices.

Options:
  --json               print all that they claim, as JSON

Exit status: 0 success; 1 avahi cannot be asked.
`

const ADD_ISSUER = `receiverd-fleet add-issuer: have each device accept the tokens of an issuer.

Usage: receiverd-fleet add-issuer [OPTION]... --role ROLE [--role ROLE]...
                                  NAME FILE

NAME is what the devices call the issuer; one that they have under this name is
replaced. FILE has its key in PEM, Ed25519 or P-256: the public one, or the
private one, of which only the public half is sent. To make a key:
  openssl genpkey -algorithm ed25519 -out issuer.pem && chmod 600 issuer.pem

${CHANGING}  --role ROLE          the most that its tokens can grant: admin or moderator,
                       followed by :r (read), :w (write) or :rw (both)
  --max-age TIME       the longest life of its tokens, 1m to 30d (default 1d)

${STATUS}`

const REMOVE_ISSUER = `receiverd-fleet remove-issuer: have each device refuse the tokens of an issuer.

Usage: receiverd-fleet remove-issuer [OPTION]... NAME

Its tokens are refused from then on. A device that has no issuer of this name is
left alone.

${CHANGING}
${STATUS}`

const CERTIFICATES = `receiverd-fleet certificates: print the certificates of the devices.

Usage: receiverd-fleet certificates [OPTION]...

For programs that know no pins, such as Prometheus. A device that has a pin in
the fleet file is asked for its certificate, which must have that pin, and must
not be good for another device of the file; for those of an authority, the
certificate of the authority is enough. No key is needed. With --output, FILE
keeps the certificates of devices that do not answer, or are not asked.

Options:
  --fleet FILE         the fleet file (default fleet.yaml)
  --group GROUP        only devices of this group; may be given more than once
  --device NAME        only this device, besides those of --group; may be given
                       more than once
  --at-once N          how many devices at once, 1 to 200 (default 20)
  --output FILE        write them to FILE, and not to stdout

Exit status: 0 success; 1 a device has no certificate that can be trusted, or FILE
cannot be written; 2 usage error, also in the fleet file; 130 interrupted.
`

const TOKEN = `receiverd-fleet token: make a token of an issuer, and print it.

Usage: receiverd-fleet token --issuer NAME --issuer-key FILE --role ROLE
                             [--role ROLE]... [OPTION]...

Many devices accept it: each that knows the issuer (receiverd-fleet add-issuer),
for as long and with the roles that it allows the issuer. To make a key:
  openssl genpkey -algorithm ed25519 -out issuer.pem && chmod 600 issuer.pem

Options:
  --issuer NAME        the issuer, as the devices call it
  --issuer-key FILE    its private key, in PEM: Ed25519, or P-256
  --role ROLE          rights of the token: admin or moderator, followed by
                       :r (read), :w (write) or :rw (both)
  --audience WHO       the devices that it is for: serial:S, host:H, group:G or *
                       (every one); needed for a token that may write
  --expires-in TIME    how long it is valid, such as 90s, 15m, 8h or 30d
                       (default 1h)
  --subject NAME       name of its holder, for the logs of the devices
  --output FILE        write it to FILE, which the group may read, and not to stdout

Exit status: 0 success; 1 FILE cannot be written; 2 usage error.
`

const TARGETS = `receiverd-fleet targets: print the devices as targets for Prometheus.

Usage: receiverd-fleet targets [OPTION]...

The list is for file_sd_configs, and each device in it has the labels device and
group (its groups, with commas). It comes from the fleet file alone: no device is
asked, and no key is needed. Each device needs an address there.

Options:
  --fleet FILE         the fleet file (default fleet.yaml)
  --group GROUP        only devices of this group; may be given more than once
  --device NAME        only this device, besides those of --group; may be given
                       more than once
  --output FILE        write it to FILE, and not to stdout

Exit status: 0 success; 1 FILE cannot be written; 2 usage error, also in the
fleet file.
`

const INVENTORY = `receiverd-fleet inventory: print the devices for Ansible.

Usage: receiverd-fleet inventory [OPTION]...

The inventory plugin receiverd.receiverd.receiverd, which is in the package, reads
it: each device as JSON, with its settings and with where its key is. It comes
from the fleet file alone, with the keys and passwords in it. A device without an
address is looked up on the network; no device is asked.

Options:
  --fleet FILE         the fleet file (default fleet.yaml)
  --group GROUP        only devices of this group; may be given more than once
  --device NAME        only this device, besides those of --group; may be given
                       more than once

Exit status: 0 success; 1 avahi cannot be asked; 2 usage error, also in the fleet
file.
`

const BRIDGE = `receiverd-fleet bridge: show the devices on an MQTT broker, for Home Assistant.

Usage: receiverd-fleet bridge [OPTION]...

Runs until it is stopped, as receiverd-fleet-bridge.service does. The fleet file
says where the broker is, and which commands it may pass on to the devices:
  bridge:
    broker: mqtts://mqtt.example.org
    user: receivers
    password: { file: mqtt.password }
    issuer: { name: bridge, key: bridge.pem }
    allow: [identify, admit, deny, end, restart-receiver]
It publishes receiverd/NAME/availability, settings, sessions, status, update and
result, and takes commands at receiverd/NAME/command. Without an issuer, it uses
the keys or the token of the fleet file.

Options:
  --fleet FILE         the fleet file (default fleet.yaml)
  --group GROUP        only devices of this group; may be given more than once
  --device NAME        only this device, besides those of --group; may be given
                       more than once
  --timeout S          seconds that a device has to answer, 1 to 600 (default 10)

Exit status: 0 it was stopped; 2 usage error, also in the fleet file.
`

const HELPS = new Map([
  ['bridge', BRIDGE],
  ['inventory', INVENTORY],
  ['targets', TARGETS],
  ['discover', DISCOVER],
  ['add-issuer', ADD_ISSUER],
  ['remove-issuer', REMOVE_ISSUER],
  ['certificates', CERTIFICATES],
  ['token', TOKEN],
  ['update', UPDATE],
  ['discard-update', DISCARD_UPDATE],
  ['run', RUN],
  ['rotate-keys', ROTATE],
  ['backup', BACKUP],
  ['restore', RESTORE],
  ['list', LIST],
  ['diff', DIFF],
  ['apply', APPLY],
])
