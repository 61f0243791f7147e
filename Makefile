SOURCES := build/package
BUILT := build/out
include build/package/install.mk
.PHONY: run build fleet fleet-test mutants size check format test quick page-shots dist sbom rig deb deb-tools image image-tools bundle bundle-tools card device-build qemu device-test update-test phone-test from earlier power-test storage-test activation-test crash-test model-test fuzz soak strike-test proof card-test pi-test device-tools arm-test bench bench-board clean walk
BIN := node_modules/.bin
TS := node --import tsx
ifneq ($(filter-out help clean,$(MAKECMDGOALS)),)
ifeq ($(shell command -v npm),)
$(error Node.js is not in PATH: install Node.js 20.19 or later, with npm)
endif
VERSION ?= $(shell sed -n 's/^  "version": "\(.*\)".*/\1/p' package.json)
export VERSION := $(VERSION)
endif
# The board that `make image` makes the image for: a folder in build/image/boards.
export BOARD ?= virt
# The key that signs bundles, and the keyring of the signers that receivers trust: files in PEM; KEY and CERT may also be
# PKCS#11 addresses. Without them, throw-away keys sign, which outlive `make clean`.
export KEY CERT KEYRING
export KEYS := $(CURDIR)/.keys

# In the foreground of a terminal, it runs in a process group of its own, so that make does not see Ctrl-C and report an error.
# Elsewhere it replaces the shell, so that the SIGTERM that make passes on reaches it.
run: build ## serve a throw-away device on 127.0.0.1:8080, and print how to talk to it
	@read -r _ _ _ _ group _ _ foreground _ </proc/$$$$/stat; \
	if [ -t 0 ] && [ "$$group" = "$$foreground" ]; then set -m; $(TS) build/run.ts; else exec $(TS) build/run.ts; fi

build: node_modules ## build build/out/receiverd.cjs, all that a device needs
	@$(TS) build/bundle.ts

# For the computer of an owner of many receivers.
fleet: node_modules src/fleet/node_modules ## build build/out/receiverd-fleet.cjs, which manages many receivers
	@$(TS) build/fleet.ts

size: build ## list what is in the bundle; fail if it is over budget
	@$(TS) build/size.ts

check: node_modules src/fleet/node_modules test/interop/node_modules test/page/node_modules test/bench/node_modules ## types, lint, format, size of the bundle
	@$(BIN)/tsc
	@$(BIN)/tsc -p src/page
	@$(BIN)/tsc -p test/page
	@$(BIN)/biome check .
	@$(MAKE) --no-print-directory size

format: node_modules ## format the sources, and bring the lists of options up to date with src/options.ts
	@$(BIN)/biome check --write .
	@$(TS) build/write-options.ts

page-shots: node_modules test/page/node_modules ## make pictures of every view of the page in build/out/page-shots
	@mkdir -p build/out && CI=true $(BIN)/tap --reporter=base --timeout=600 test/page/shots.ts

# tap compiles itself for the plugins that package.json names. A run that has to do so first starts with all of tap's own
# plugins, which cost each test half a second.
test quick page-shots arm-test device-test card-test pi-test update-test phone-test power-test storage-test activation-test crash-test model-test fleet-test soak walk strike-test bench: node_modules/.tap-built
node_modules/.tap-built: node_modules/.package-lock.json
	@$(BIN)/tap build
	@touch $@

# If the output is not a terminal, CI=true makes the reporter leave out the lines that a terminal would overwrite.
define TAP
@rm -rf .tap/test-results
@[ -t 1 ] || export CI=true; \
	trap '$(TS) build/left-out.ts' EXIT; programs=$$(node build/compile-tests.cjs $(1)) && $(BIN)/tap --reporter=base $$programs
endef

test: build fleet test/interop/node_modules test/page/node_modules ## run every test
	$(call TAP)

quick: node_modules ## run the tests that start nothing, in less than a minute
	$(call TAP,quick)

install: build

dist: build ## build a tarball that installs without npm and network: for Yocto, Buildroot and the like
	@build/dist.sh

sbom: node_modules ## print a bill of materials of what is in the bundle (CycloneDX)
	@$(TS) build/sbom.ts

rig: ## make a root file system for tests on a real systemd, with UxPlay: build/out/rig (as root)
	@build/rig.sh

# The tools are checked before anything is downloaded or built.
deb: deb-tools build fleet build/out/node-arm64.stamp ## build the Debian packages: the service, mirroring, TLS, Node for arm64, and the program for fleets
	@build/deb.sh indep

deb-tools:
	@build/deb.sh check

# The runtime changes only with its version.
build/out/node-arm64.stamp: build/runtime/node_modules/.package-lock.json build/debian/control build/debian/rules build/deb.sh
	@build/deb.sh arch && touch $@

image: image-tools deb build/out/image/$(BOARD).tar ## build an image for a board: make image BOARD=raspberry-pi (as root)
	@echo 'The image for $(BOARD): a minute or two' && build/image/image.sh

image-tools:
	@. build/image/binfmt.sh
	@build/image/keyring.sh check
	@[ -e build/image/boards/$(BOARD)/boot.sh ] || \
		{ echo 'there is no board $(BOARD); BOARD= is one of: $(notdir $(wildcard build/image/boards/*))' >&2; exit 1; }

bundle: bundle-tools image ## build a signed update: make bundle BOARD=raspberry-pi VERSION=1.1.0 KEY=sign.key CERT=sign.pem KEYRING=ca.pem (as root)
	@echo 'The bundle: a few minutes' && build/image/bundle.sh build/out/image/$(BOARD).ext4 build/out/receiver-$(BOARD)-$(VERSION).raucb

bundle-tools:
	@build/image/bundle.sh check

build/out/image/base.tar: build/image/base.sh build/image/updates.sh build/image/left-out
	@mkdir -p $(@D) && echo 'Debian for the image, once: five minutes or more, with the details in $@.log' && build/image/base.sh $@

# A board's additions to the base: its packages, its overlay, which says how they are set up, and its initrd.
build/out/image/$(BOARD).tar: build/out/image/base.tar build/image/board.sh build/image/copy.sh $(shell find build/image/initramfs build/image/boards/$(BOARD) -type f ! -name '*.sh' 2>/dev/null)
	@echo 'The packages of $(BOARD), once: a few minutes' && build/image/board.sh $(BOARD) $< $@

# TAP shows each step as it ends, some after minutes, and the measurements.
DEVICE_TEST = @TEST_DEADLINE_MS=120000 $(BIN)/tap --reporter=tap --timeout=86400 --jobs=1

device-test: device-tools image build/out/next/receiverd.deb bench-board ## boot the image, and test it from outside and inside
	$(DEVICE_TEST) test/device/boot-script.device.ts test/device/package.device.ts test/device/boot.device.ts

# It runs after the other image, because both are made in the same folder, and uses the packages of that image.
card: image
	@$(MAKE) --no-print-directory --assume-old=deb image BOARD=raspberry-pi

# Everything that these tests boot.
device-build: device-tools from image card earlier build/out/next/receiverd.deb bench-board

update-test: device-tools from image earlier ## update the booted image, also to versions that do not work: make update-test PROOF=1 FROM=COMMIT
	$(DEVICE_TEST) test/device/update.device.ts

phone-test: device-tools image test/page/node_modules ## update the booted image from its page on a phone, and pull the plug in the middle
	@mkdir -p build/out/phone
	$(DEVICE_TEST) test/visits/phone.device.ts

# The image of an earlier commit, from which the device is updated.
earlier: image
	@[ -z "$(FROM)" ] || build/image/earlier.sh "$(FROM)"

# This is checked before anything is built.
from:
	@[ -z "$(FROM)" ] || git rev-parse --verify --quiet "$(FROM)^{commit}" >/dev/null || \
		{ echo 'there is no commit $(FROM) in this repository' >&2; exit 1; }

power-test: device-tools image ## cut the power of the booted image 20 times, or more: make power-test N=200
	$(DEVICE_TEST) test/device/power.device.ts

storage-test: device-tools image ## boot the image on storage that misbehaves: lost, full, failing, slow
	$(DEVICE_TEST) test/device/storage.device.ts

activation-test: device-tools image ## cut the power at each write around the activation of an update of the booted image
	$(DEVICE_TEST) test/device/activation.device.ts

card-test: device-tools card build/out/image/hostapd.deb ## boot the card for the Raspberry Pi on the virtual board, which has a screen
	$(DEVICE_TEST) test/image/card.test.ts test/device/card.device.ts

pi-test: device-tools card ## boot the card in an emulated Raspberry Pi, which takes minutes to start
	$(DEVICE_TEST) test/device/raspberry-pi.device.ts

# Access points for the card to join.
build/out/image/hostapd.deb: test/device/hostapd.sh
	@mkdir -p $(@D) && test/device/hostapd.sh $@

crash-test: build ## start from every state that a power cut could leave of a disk: make crash-test CHANGES=300
	@[ -t 1 ] || export CI=true; CHANGES=$(or $(CHANGES),100) $(BIN)/tap --reporter=base --timeout=86400 test/crash/states.test.ts

model-test: build ## run random sessions on UxPlay against a model: make model-test ROUNDS=1000
	@[ -t 1 ] || export CI=true; $(BIN)/tap --reporter=base --timeout=86400 test/engines/model.test.ts

fuzz: node_modules test/interop/node_modules ## fuzz the parsers, the API and the start for hours: make fuzz TARGET=patch SECONDS=3600
	@$(TS) test/fuzz/run.ts

fleet-test: build fleet ## manage a site of many devices, some of which are killed, and watch it: make fleet-test N=1000
	@N=$(or $(N),1000) TEST_DEADLINE_MS=120000 $(BIN)/tap --reporter=tap --timeout=86400 test/fleet/thousand.test.ts

soak: build ## run one service for hours, with clients, changes, sessions, new keys and clock steps: make soak HOURS=8 SEED=2
	@HOURS=$(or $(HOURS),1) TEST_DEADLINE_MS=120000 $(BIN)/tap --reporter=tap --timeout=864000 test/soak/soak.test.ts

walk: build test/page/node_modules ## press random things on the page in two browsers, against a model: make walk STEPS=2000 SEED=2 BROWSER=firefox
	@STEPS=$(or $(STEPS),1000) TEST_DEADLINE_MS=120000 $(BIN)/tap --reporter=tap --timeout=864000 test/page/walk.test.ts

strike-test: node_modules ## make storage and commands fail at random, and check what must hold: make strike-test STRIKES=100000 SEED=2
	@STRIKES=$(or $(STRIKES),10000) TEST_DEADLINE_MS=120000 $(BIN)/tap --reporter=tap --timeout=864000 test/faults/strikes.test.ts

# ONLY=src/auth changes only this room; N=50 changes 50 places of each room, chosen by SEED.
mutants: node_modules ## change the sources in small ways, and list the changes that no test notices (takes long)
	@$(TS) test/mutants/main.ts

proof: ## run everything that takes hours: mutants, each state that a power cut could leave, 200 power cuts, 1,000 devices, bad storage, 1,000 rounds against the model, fuzzing, an hour of soak, 2,000 steps over the page, 10,000 strikes, the card, the whole bench (as root)
	@test/proof.sh

device-tools:
	@test/device/tools.sh
	@test/device/qemu.sh

qemu: ## provide the emulator of devices: build/out/qemu
	@test/device/qemu.sh

# The same packages with the next version number, for the update.
NEXT := build/out/next
$(NEXT)/receiverd.deb: deb
	@$(MAKE) --no-print-directory VERSION=$(VERSION)+next deb
	@mkdir -p $(NEXT) && for name in receiverd receiverd-tls; do mv build/out/$${name}_$(VERSION)+next_all.deb $(NEXT)/$$name.deb; done
	@rm build/out/*+next_all.deb
	@$(MAKE) --no-print-directory build

arm-test: build fleet test/interop/node_modules test/arm/node_modules build/runtime/node_modules ## the end-to-end suite on Node for 64-bit and 32-bit ARM
	@test/arm/run.sh

# ONLY=sse,get runs some scenarios; SHORT=1 takes minutes, and fails if a target is missed by more than a factor of two.
bench: build test/bench/node_modules test/page/node_modules ## measure it against nginx, Fastify, Express and bare Node, and its page by Lighthouse (half an hour)
	@$(if $(ONLY),,[ -t 1 ] || export CI=true; $(BIN)/tap --reporter=base --jobs=1 test/page/speed.ts test/page/lighthouse.ts)
	@$(TS) test/bench/bench.ts

bench-board: build ## build build/out/bench-board.cjs, to copy to a board and see how fast it is there
	@$(TS) build/board.ts

clean: ## remove everything that was built or installed here
	rm -rf build/out .tap node_modules build/runtime/node_modules src/fleet/node_modules test/*/node_modules

# The stamp comes from npm, which leaves a copy of the lock file in the folder.
NESTED := src/fleet test/interop test/page test/bench test/arm build/runtime
node_modules $(NESTED:=/node_modules): %: %/.package-lock.json
node_modules/.package-lock.json: package.json package-lock.json
$(NESTED:=/node_modules/.package-lock.json): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
%/.package-lock.json:
	@npm ci --prefix $(@D)/.. --no-audit --no-fund --loglevel=error
	@touch $@
