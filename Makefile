.DEFAULT_GOAL := help
.PHONY: help run build size check format test bench clean
BIN := node_modules/.bin

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

# ONLY=sse,get takes some of it; SHORT=1 takes minutes, and fails where a target is missed by twice.
bench: build test/bench/node_modules ## measure it against nginx, Fastify, Express and bare Node (half an hour)
	@node test/bench/bench.mjs

clean: ## remove what was made, and what was installed
	rm -rf build/out .tap node_modules test/interop/node_modules test/bench/node_modules

# The stamp is npm's own: the copy of the lock file that it leaves in the folder.
node_modules: node_modules/.package-lock.json
node_modules/.package-lock.json: package.json package-lock.json
test/interop/node_modules: test/interop/node_modules/.package-lock.json
test/interop/node_modules/.package-lock.json: test/interop/package.json test/interop/package-lock.json
test/bench/node_modules: test/bench/node_modules/.package-lock.json
test/bench/node_modules/.package-lock.json: test/bench/package.json test/bench/package-lock.json
%/.package-lock.json:
	@npm ci --prefix $(@D)/.. --no-audit --no-fund --loglevel=error
	@touch $@
