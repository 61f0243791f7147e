.DEFAULT_GOAL := help
.PHONY: help run build size check format test install deb bench-board clean
BIN := node_modules/.bin
PREFIX := /usr
UNITDIR := $(PREFIX)/lib/systemd/system
export VERSION ?= $(shell node -p "require('./package.json').version")

help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: build ## serve a throw-away device on 127.0.0.1:8080 and say how to talk to it
	@[ -t 0 ] && set -m; node build/run.mjs

build: node_modules ## make build/out/receiverd.cjs, all that a device needs
	@node build/bundle.mjs

size: build ## what is in the bundle, and whether it is within its budget
	@node build/size.mjs

check: node_modules test/interop/node_modules ## types, lint, format, size of the bundle
	@$(BIN)/tsc
	@$(BIN)/biome check .
	@$(MAKE) --no-print-directory size

format: node_modules ## put the sources into their format
	@$(BIN)/biome check --write .

# Into a pipe or a file, CI=true has the reporter leave out the lines that a terminal draws over.
test: build test/interop/node_modules ## every test
	@[ -t 1 ] || export CI=true; $(BIN)/tap --reporter=base

bench-board: build ## make build/out/bench-board.cjs, to copy to a board and see how fast it is there
	@node build/board.mjs

install: build ## lay the files out below DESTDIR, for an image: make install DESTDIR=/path/to/root
	install -D -m 755 build/package/receiverd $(DESTDIR)$(PREFIX)/bin/receiverd
	install -D -m 755 build/out/receiverd.cjs $(DESTDIR)$(PREFIX)/lib/receiverd/receiverd.cjs
	install -D -m 644 -t $(DESTDIR)$(UNITDIR) build/package/receiverd.service build/package/receiverd.socket
	install -D -m 644 build/package/receiverd.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/receiverd.conf
	install -D -m 644 build/package/receiverd.8 $(DESTDIR)$(PREFIX)/share/man/man8/receiverd.8
	install -D -m 644 build/package/receiverd.default $(DESTDIR)/etc/default/receiverd

deb: build build/out/node-arm64.stamp ## build the Debian packages: receiverd, and Node for arm64 devices
	@build/deb.sh indep

# The runtime changes with its version alone.
build/out/node-arm64.stamp: build/runtime/package-lock.json build/debian/control build/debian/rules build/deb.sh
	@npm ci --prefix build/runtime --force --no-audit --no-fund --loglevel=error
	@build/deb.sh arch && touch $@

clean: ## remove what was made, and what was installed
	rm -rf build/out .tap node_modules build/runtime/node_modules test/*/node_modules

# The stamp is npm's own: the copy of the lock file that it leaves in the folder.
node_modules: node_modules/.package-lock.json
node_modules/.package-lock.json: package.json package-lock.json
test/interop/node_modules: test/interop/node_modules/.package-lock.json
test/interop/node_modules/.package-lock.json: test/interop/package.json test/interop/package-lock.json
%/.package-lock.json:
	@npm ci --prefix $(@D)/.. --no-audit --no-fund --loglevel=error
	@touch $@
