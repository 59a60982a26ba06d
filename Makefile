# Targets of this tree. `make` alone lists them.

GO ?= go

# PATH=… of make module is the path of a module, and no list of folders: programs are found by the PATH that make itself
# was started with. $(shell) has that one, or since make 4.4 the file of the process.
ifeq ($(origin PATH),command line)
MODULE_PATH := $(PATH)
override PATH := $(shell p=$$(/usr/bin/tr '\0' '\n' 2>/dev/null </proc/$$PPID/environ | /usr/bin/sed -n 's/^PATH=//p'); echo "$${p:-$$PATH}")
endif

# The product needs no C; only the race detector does.
export CGO_ENABLED = 0

# Everything is compiled with the same flags, so that nothing is compiled twice: by these targets, by tests that build a
# server, or by hand with the same GOFLAGS. Paths of this machine stay out of the programs.
# The compiler and the linker need a quarter less processor time if they collect garbage only from 1.5 GiB on, which changes
# nothing that they write. Most end before that. Debug information takes a tenth of the compilation, and no program or test
# keeps it: stack traces do not need it.
export GOFLAGS := $(GOFLAGS) -trimpath '-toolexec=env GOGC=off GOMEMLIMIT=1536MiB' -gcflags=all=-dwarf=false

# Go cannot stamp the revision where git refuses to read, for example in a tree that
# another user owns. The build then omits the revision.
ifneq ($(shell git status --porcelain >/dev/null 2>&1 || echo refused),)
GOFLAGS += -buildvcs=false
endif

# SQLite is C translated to Go and manages its own memory, with an allocator in Go (modernc.org/memory). The race
# detector finds nothing there and makes it three times slower. Everything else is instrumented: our code, the driver,
# the other libraries.
#
# -race also makes the compiler check the use of unsafe, which costs up to a tenth of a test that reflects much. Our code
# keeps this check; the standard library and the other modules are compiled without.
RACE = -race '-gcflags=all=-dwarf=false -d=checkptr=0' -gcflags=./...=-dwarf=false \
	$(foreach p,modernc.org/libc modernc.org/memory modernc.org/sqlite/lib,'-gcflags=$(p)=-race=false -dwarf=false')

# By default a process under the race detector sleeps a second before it exits, for
# goroutines that still run. Ours have ended by then.
export GORACE = atexit_sleep_ms=0

# Tests spend a third of their time waiting, for leases that end and programs that start. So twice as many packages run at
# once as there are processors, and twice as many tests of each.
PARALLEL := $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# Go compiles packages, and starts their tests, in this order. Some that need little begin, so that results come early.
# Then the slowest ones by measured time, so that none of them runs alone in the end. The tests of the ledger, of worktrees
# and of conformance come before those of the command, which need everything compiled: they run while the rest is compiled.
QUICK   = . ./entry ./auth ./bus ./project ./channel/markdown ./channel/chat ./channel/chat/room ./internal/jsontext ./server/internal/request
LONGEST = ./ledger ./agent/exec/worktree ./torture/conformance ./cmd/mailroom ./server ./torture ./alert \
	./engine ./store/postgres ./channel/chat/adapter ./cmd/bd ./thread ./app/node ./internal/suite ./internal/proc \
	./bench/mailroom ./channel/poll ./store/sqlite ./channel/matrix ./channel/webhook ./store/transfer ./agent/exec \
	./channel/discord ./protocol/mcp ./channel/slack ./stream/turn ./channel/telegram ./store/storetest \
	./internal/archtest ./channel/irc ./app/manual ./schedule ./schedule/plan ./issues/tracker ./agent/builtin \
	./internal/pgtest ./torture/fuzz ./doctor ./stream

.DEFAULT_GOAL := help
.PHONY: conformance help build fakes run test racing module modules test-real-agents real-agents-need test-real-channels lint format vet staticcheck pages npm web js python vendor docs torture attack mutants chaos fuzz bench bench-bd peers cover release release-twice test-package programs compiler clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 — /p' $(MAKEFILE_LIST)

# The programs need no symbol table: stack traces, which crash reports contain, come from another one.
build: ## build bin/mailroom and bin/bd
	$(GO) build -ldflags="-s -w" -o bin/ ./cmd/mailroom ./cmd/bd

fakes: # servers for the tests of the pages
	$(GO) build -ldflags="-s -w" -o bin/ ./web/test/fakes

run: build ## build and start the server; DATA=folder keeps everything there
	@exec bin/mailroom serve $(if $(DATA),--data "$$DATA")

test: programs ## everything: format, vet, staticcheck, build, tests with the race detector, pages; says what it does, and sums up
	@echo "make test compiles and starts internal/suite, which runs the steps" && \
		mkdir -p bin && $(GO) build -o bin/suite ./internal/suite && exec bin/suite

# A server collects garbage with a GOGC of 400 (app/node). Tests that run one in their own program do so too: it saves a
# seventh of their processor time. Programs that they start do not inherit it (internal/machinetest).
racing: # make test sets JSON; vet is a step of its own
	CGO_ENABLED=1 GOGC=400 $(GO) test $(RACE) $(JSON) -p $(PARALLEL) -parallel $(PARALLEL) -vet=off -timeout 40m $(QUICK) $(LONGEST) ./...

module: ## set the path under which other Go programs import this module, everywhere; PATH=example.org/mailroom
	@exec $(GO) run ./internal/suite "$(MODULE_PATH)"

modules:
	@export $(WORK); for m in $(MODULES); do (cd $$m && $(GO) vet . && $(GO) test $(JSON) -vet=off .) || exit 1; done
	@export GOWORK=off; for m in tools/release tools/deploy tools/prices; do (cd $$m && $(GO) vet . && $(GO) test $(JSON) -count 1 -vet=off .) || exit 1; done

# Code with dependencies that nothing else needs is a separate module. bench/peers has
# its own target, because it takes minutes to build.
MODULES = store/sqlite/powercut server/openapi channel/slack/slackgo examples/webhook-pipeline

# The tools are, too, outside of the workspace: they need other versions of what this module needs.
#
# They share a workspace with this module, so that its packages are not compiled again under another path.
WORK = GOWORK=$(CURDIR)/modules.work

PROGRAMS = agent/exec/testdata/programs
ADAPTERS = agent/exec/testdata/acp

# First it says what is missing, then it installs the programs. One package after the other: each test of a program is slow
# enough alone.
test-real-agents: real-agents-need $(PROGRAMS)/node_modules/.ready $(ADAPTERS)/node_modules/.ready ## the real codex, claude, gemini, opencode and the adapters of ACP, from npm (1.4 GB), against a fake model on loopback; RUN=name for some
	@mkdir -p bin && $(GO) build -o bin/suite ./internal/suite && CGO_ENABLED=1 bin/suite agents $(GO) test $(RACE) -json -tags realagents \
		-count 1 -timeout 30m -p 1 -run 'TestReal.*$(RUN)' ./agent/exec ./cmd/mailroom

real-agents-need:
	@.ci/programs go git compiler node
	@for d in $(PROGRAMS) $(ADAPTERS); do test -e $$d/node_modules/.ready || echo "not installed yet: the programs in $$d/package.json; npm installs them now"; done

# Install scripts of packages do not run, except the one that installs claude's binary.
$(PROGRAMS)/node_modules/.ready: $(PROGRAMS)/package-lock.json
	cd $(PROGRAMS) && npm ci --ignore-scripts --prefer-offline --loglevel=error && \
		node node_modules/@anthropic-ai/claude-code/install.cjs && touch node_modules/.ready

# The programs that the adapters would bring as optional packages are those above.
$(ADAPTERS)/node_modules/.ready: $(ADAPTERS)/package-lock.json
	cd $(ADAPTERS) && npm ci --ignore-scripts --omit=optional --prefer-offline --loglevel=error && touch node_modules/.ready

ELEMENT = channel/matrix/node

test-real-channels: compiler bin/dendrite/dendrite $(ELEMENT)/node_modules/.ready ## Matrix on a real homeserver, Dendrite (the first build takes minutes), and with the client library of Element; RUN=name for some
	CGO_ENABLED=1 $(GO) test $(RACE) -tags realchannels -count 1 -timeout 20m -v -run '$(or $(RUN),Matrix)' ./cmd/mailroom
	CGO_ENABLED=1 $(GO) test $(RACE) -tags realchannels -count 1 -timeout 20m -v -run '$(RUN)' ./channel/matrix

bin/dendrite/dendrite: channel/matrix/dendrite/go.mod channel/matrix/dendrite/go.sum
	cd channel/matrix/dendrite && CGO_ENABLED=1 $(GO) build -o $(CURDIR)/$@ github.com/matrix-org/dendrite/cmd/dendrite

MCP = protocol/mcp/node

# The linter of /openapi.json: one package of 15 MB, which takes a second.
OPENAPI = server/openapi/node

NPM = clients/js $(MCP) $(OPENAPI) web/vendor web

npm: $(NPM:%=%/node_modules/.ready)

# npm runs again if the list of packages has changed since.
%/node_modules/.ready: %/package.json %/package-lock.json
	cd $* && npm ci --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error && touch node_modules/.ready

pages: programs build fakes npm js web ## the JavaScript client and an MCP client in Node, and the pages in a real Chromium; screenshots in bin/shots

js:
	cd clients/js && npm run --silent types && npm test --silent
	cd $(MCP) && npm test --silent
	cd $(OPENAPI) && npm test --silent

# The packages of a distribution are for its own Python, which may not be the first one in PATH.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)

python: ## check, test and package the Python client; MAILROOM_BIN=file for another server
	@.ci/programs python-tools
	PYTHON=$(PYTHON) clients/python/check.sh

web:
	cd web && npm run --silent types && npm test --silent

vendor: web/vendor/node_modules/.ready ## bundle the libraries of the pages, of the versions in web/vendor/package.json
	cd web/vendor && node build.js

# BASE=https://… is the address of the site, which only its links for language models need. Screenshots are those that
# the last make pages has left.
docs: build ## write the manual as web pages to bin/docs; BASE=address
	@rm -rf bin/docs && bin/mailroom docs bin/docs $(if $(BASE),--base "$(BASE)") $(if $(wildcard bin/shots),--pictures bin/shots)

lint: format vet staticcheck ## gofmt, no large file, go vet, staticcheck

format:
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) && if [ -n "$$bad" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$bad" >&2; exit 1; fi
	@large=$$(git ls-files -z 2>/dev/null | xargs -0r sh -c 'find "$$@" -prune -type f -size +256k' sh) && if [ -n "$$large" ]; then \
		echo "over 256 KiB, too large for the repository:" >&2; echo "$$large" >&2; exit 1; fi

# Packages with files of these tags, and the tags.
TAGGED = ./cmd/mailroom ./app/node ./agent/exec ./channel/matrix
TAGS   = torture,realagents,realchannels

# Programs for Windows are compiled and linked, but not run: without optimization that takes two thirds of the time. Each
# package is checked as in any other build. For macOS the same packages are checked, but not compiled, which takes a
# twentieth; make release builds them.
FOREIGN = '-gcflags=all=-N -l -dwarf=false'

# What works on Windows, with its tests: the tracker, the client, and the commands that talk to a server.
CLIENTS = ./cmd/bd ./issues/bd ./issues/tracker ./client ./app/cli ./app/command ./app/datadir ./app/endpoint

# Vet and staticcheck read compiled packages. They use what the tests compiled, for the race detector.
vet:
	CGO_ENABLED=1 $(GO) vet $(RACE) ./...
	CGO_ENABLED=1 $(GO) vet $(RACE) -tags $(TAGS) $(TAGGED)
	GOOS=windows GOARCH=amd64 $(GO) build $(FOREIGN) ./cmd/mailroom ./cmd/bd
	GOOS=windows GOARCH=amd64 $(GO) vet $(FOREIGN) $(CLIENTS)
	$(GO) run ./internal/suite types darwin arm64 ./cmd/mailroom ./cmd/bd

staticcheck:
	$(GO) build -modfile=tools.mod -o bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) $(RACE)" GOGC=400 bin/staticcheck ./...
	CGO_ENABLED=1 GOFLAGS="$(GOFLAGS) $(RACE)" GOGC=400 bin/staticcheck -tags $(TAGS) $(TAGGED)
	cd server/openapi && $(WORK) $(CURDIR)/bin/staticcheck .

torture: build ## random histories, faults, power cuts, then repeated kill -9; CYCLES=100 SEED=n DATA=folder CHECKS=n CUTS=n NODES=3 OLD=program
	$(GO) build -tags torture -o bin/mailroom-torture ./cmd/mailroom
	$(GO) build -o bin/torture ./torture
ifeq ($(NODES),)
	$(GO) test ./ledger -count 1 -timeout 30m -run TestRandomHistories -v -rapid.checks=$(or $(CHECKS),200) -rapid.steps=60
	$(GO) test ./ledger -count 1 -timeout 30m -run CanBeRepeatedAfterAnyFault -all
	cd store/sqlite/powercut && $(GO) test -count 1 -timeout 30m -v . -cuts $(or $(CUTS),300)
endif
	bin/torture -cycles $(or $(CYCLES),100) $(if $(NODES),-nodes "$$NODES") $(if $(OLD),-old "$$OLD") $(if $(SEED),-seed "$$SEED") $(if $(DATA),-data "$$DATA")

conformance: ## every worker against every scenario, on a real server; prints the table; WORKERS=go,python RUN=name
	$(GO) test ./torture/conformance -count 1 -timeout 30m -parallel 8 -run 'Conforms' -full -table $(if $(WORKERS),-columns $(WORKERS)) $(if $(RUN),-only "$(RUN)")

attack: build ## attack a server as hostile clients would; ONLY=name SERVER=program JUDGE=false
	$(GO) build -o bin/attack ./torture/attack
	bin/attack -server $(or $(SERVER),bin/mailroom) $(if $(ONLY),-only "$$ONLY") $(if $(JUDGE),-judge=$(JUDGE))

mutants: ## break each guarantee in the source; its test must fail; ONLY=regexp of files or descriptions
	$(GO) run ./torture/mutants $(if $(ONLY),-only "$$ONLY")

chaos: ## clients on a bad network while the server is killed; KILLS=10 WORDS=300 SEED=n
	$(GO) test ./torture -count 1 -timeout 30m -v -run BehindABadNetwork -kills $(or $(KILLS),10) -words $(or $(WORDS),300) $(if $(SEED),-seed "$$SEED")

fuzz: ## run every fuzz target, also after one that fails; TIME=10s for each, FUZZ=name for one
	@mkdir -p bin && $(GO) build -o bin/fuzz ./torture/fuzz && exec bin/fuzz -time $(or $(TIME),10s) $(if $(FUZZ),-only "$$FUZZ")

bench: ## measure this machine; PARTS="runs latency" FOR=60s DATA=folder, see docs/benchmarks.md
	$(GO) build -ldflags="-s -w" -o bin/mailroom-bench ./bench/mailroom
	@exec bin/mailroom-bench $(PARTS) --for $(or $(FOR),10s) $(if $(DATA),--data "$$DATA")

bench-bd: build ## measure the tracker's command on this machine; ROUNDS=15 DATA=folder BD="bin/mailroom issue"
	$(GO) build -o bin/bench-bd ./bench/bd
	@exec bin/bench-bd -rounds $(or $(ROUNDS),15) $(if $(DATA),-data "$(abspath $(DATA))") $(or $(BD),bin/bd)

peers: build ## compare with other queues under the same load; ROUNDS=3 FOR=60s ONLY=asynq,jetstream RATE=100 DATA=folder
	cd bench/peers && $(GO) vet . && $(GO) test . && $(GO) build -o ../../bin/peers .
	@cd bench/peers && exec ../../bin/peers -mailroom ../../bin/mailroom -rounds $(or $(ROUNDS),3) -for $(or $(FOR),10s) $(if $(ONLY),-only $(ONLY)) \
		$(if $(RATE),-rate $(RATE)) $(if $(DATA),-data "$(abspath $(DATA))")

# tools/release has no workspace: what it imports may not change the versions of the product.
RELEASE = cd tools/release && GOWORK=off $(GO) build -o $(CURDIR)/bin/make-release . && cd $(CURDIR) && exec bin/make-release -version "$(VERSION)" \
	$(if $(BASE),-base "$(BASE)") $(if $(MAINTAINER),-maintainer "$(MAINTAINER)") $(if $(PLATFORMS),-platforms "$(PLATFORMS)")

release: ## archives, packages, image, checksums in bin/release; VERSION=0.1.0 BASE=address MAINTAINER="name <address>" PLATFORMS=linux/amd64, MAILROOM_SIGNING_KEY
	@$(RELEASE)

release-twice: ## build the release in two clones in other folders, and compare the bytes; VERSION=0.1.0 PLATFORMS=linux/amd64
	@tools/release/twice.sh "$(VERSION)" "$(PLATFORMS)"

test-package: ## as root: install, run, upgrade, remove and purge the deb in a new Debian, and run the image; OLD=0.1.0-rc.1 NEW=0.1.0-rc.2 are built; ROOT=folder of a debootstrap
	@exec deploy/test/package.sh "$(or $(OLD),$(VERSION)-rc.1)" "$(or $(NEW),$(VERSION)-rc.2)" "$(ROOT)"

cover: ## measure test coverage; details in bin/cover.html
	@mkdir -p bin
	$(GO) test -coverpkg=./... -coverprofile=bin/cover.out ./...
	@$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	@$(GO) tool cover -func=bin/cover.out | tail -n 1

programs: ## check for the programs that the tests need; as root on a system with apt-get, install them
	@.ci/programs go git compiler node chromium headless-shell ngircd exim postgres caddy nginx python3 openssl curl

compiler:
	@.ci/programs go compiler

clean: ## remove build results
	rm -rf bin $(patsubst %,%/node_modules,$(NPM) $(PROGRAMS) $(ELEMENT))
