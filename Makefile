# Targets of this tree. `make` alone lists them.

GO         ?= go
STATICCHECK = $(GO) tool -modfile=tools.mod staticcheck

# The product needs no C; only the race detector does.
export CGO_ENABLED = 0

# Go cannot stamp the revision where git refuses to read, for example in a tree that
# another user owns. The build then omits the revision.
ifneq ($(shell git status --porcelain >/dev/null 2>&1 || echo refused),)
export GOFLAGS := $(GOFLAGS) -buildvcs=false
endif

# SQLite is C translated to Go and manages its own memory. The race detector finds
# nothing there and makes it three times slower. Everything else is instrumented: our
# code, the driver, the other libraries.
RACE = -race $(foreach p,modernc.org/libc modernc.org/sqlite/lib,-gcflags=$(p)=-race=false)

# By default a process under the race detector sleeps a second before it exits, for
# goroutines that still run. Ours have ended by then.
export GORACE = atexit_sleep_ms=0

# The slowest packages start first.
LONGEST = ./cmd/mailroom ./ledger ./torture ./engine ./server

.DEFAULT_GOAL := help
.PHONY: help build run test racing rest test-real-agents test-real-channels lint pages vendor torture attack mutants chaos fuzz bench bench-bd peers cover compiler browser ircd smtpd postgres programs clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 — /p' $(MAKEFILE_LIST)

build: ## build bin/mailroom and bin/bd
	$(GO) build -trimpath -o bin/ ./cmd/mailroom ./cmd/bd

run: build ## build and start the server; DATA=folder keeps everything there
	@exec bin/mailroom serve $(if $(DATA),--data "$$DATA")

# Two jobs in parallel: the tests often wait for real processes, clocks and disks, and
# the other checks use that time. Their output is printed in one piece at their end.
test: compiler browser ircd smtpd postgres programs ## everything: format, vet, staticcheck, build, tests with the race detector
	@mkdir -p bin
	@$(MAKE) --no-print-directory -j2 racing rest

# Packages spend much time waiting, so more run in parallel than there are processors.
racing: # lint runs go vet
	CGO_ENABLED=1 $(GO) test $(RACE) -p 3 -vet=off -timeout 40m $(LONGEST) ./...

rest:
	@{ $(MAKE) --no-print-directory lint && $(MAKE) --no-print-directory build && \
		for m in $(MODULES); do (cd $$m && $(GO) vet . && $(GO) test -vet=off .) || exit 1; done && \
		$(MAKE) --no-print-directory pages; } >bin/rest.log 2>&1; code=$$?; cat bin/rest.log; exit $$code

# Code with dependencies that nothing else needs is a separate module. bench/peers has
# its own target, because it takes minutes to build.
MODULES = store/sqlite/powercut server/openapi channel/slack/slackgo bench/bd

PROGRAMS = agent/exec/testdata/programs

test-real-agents: compiler $(PROGRAMS)/node_modules/.ready ## the real codex and claude, from npm (770 MB), against a fake model on loopback; RUN=name for some
	CGO_ENABLED=1 $(GO) test -race -tags realagents -count 1 -timeout 10m -v -run 'TestReal.*$(RUN)' ./agent/exec ./cmd/mailroom

# Install scripts of packages do not run, except the one that installs claude's binary.
$(PROGRAMS)/node_modules/.ready: $(PROGRAMS)/package-lock.json
	cd $(PROGRAMS) && npm ci --ignore-scripts --prefer-offline --loglevel=error && \
		node node_modules/@anthropic-ai/claude-code/install.cjs && touch node_modules/.ready

ELEMENT = channel/matrix/node

test-real-channels: compiler bin/dendrite/dendrite $(ELEMENT)/node_modules/.ready ## Matrix on a real homeserver, Dendrite (the first build takes minutes), and with the client library of Element; RUN=name for some
	CGO_ENABLED=1 $(GO) test -race -tags realchannels -count 1 -timeout 20m -v -run '$(or $(RUN),Matrix)' ./cmd/mailroom
	CGO_ENABLED=1 $(GO) test -race -tags realchannels -count 1 -timeout 20m -v -run '$(RUN)' ./channel/matrix

bin/dendrite/dendrite: channel/matrix/dendrite/go.mod channel/matrix/dendrite/go.sum
	cd channel/matrix/dendrite && CGO_ENABLED=1 $(GO) build -trimpath -o $(CURDIR)/$@ github.com/matrix-org/dendrite/cmd/dendrite

$(ELEMENT)/node_modules/.ready: $(ELEMENT)/package-lock.json
	cd $(ELEMENT) && npm ci --ignore-scripts --prefer-offline --loglevel=error && touch node_modules/.ready

MCP = protocol/mcp/node

$(MCP)/node_modules/.ready: $(MCP)/package-lock.json
	cd $(MCP) && npm ci --ignore-scripts --prefer-offline --loglevel=error && touch node_modules/.ready

pages: browser smtpd postgres build $(MCP)/node_modules/.ready ## the JavaScript client and an MCP client in Node, and the pages in a real Chromium; screenshots in bin/shots
	$(GO) build -trimpath -o bin/ ./web/test/pgcluster ./web/test/mailserver
	cd clients/js && npm ci --ignore-scripts --prefer-offline --loglevel=error && npm run --silent types && npm test --silent
	cd $(MCP) && npm test --silent
	cd web/vendor && npm ci --ignore-scripts --prefer-offline --loglevel=error
	cd web && npm ci --ignore-scripts --prefer-offline --loglevel=error && npm run --silent types && npm test --silent

vendor: ## bundle the libraries of the pages, of the versions in web/vendor/package.json
	cd web/vendor && npm ci --ignore-scripts --prefer-offline --loglevel=error && node build.js

# The build uses -trimpath. Lint and these tests use it too, so that they share the
# build cache.
rest lint: export GOFLAGS := $(GOFLAGS) -trimpath

lint: ## gofmt, go vet, staticcheck, no large file
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) && if [ -n "$$bad" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$bad" >&2; exit 1; fi
	@large=$$(git ls-files -z 2>/dev/null | xargs -0r sh -c 'find "$$@" -prune -type f -size +256k' sh) && if [ -n "$$large" ]; then \
		echo "over 256 KiB, too large for the repository:" >&2; echo "$$large" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags torture,realagents,realchannels ./cmd/mailroom ./internal/node ./agent/exec ./channel/matrix
	$(GO) vet -tags nextversion ./internal/thread ./store/postgres
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags torture,realagents,realchannels ./cmd/mailroom ./internal/node ./agent/exec ./channel/matrix
	$(STATICCHECK) -tags nextversion ./internal/thread ./store/postgres
	cd server/openapi && $(GO) tool -modfile=$(CURDIR)/tools.mod staticcheck .
	cd bench && $(GO) tool -modfile=$(CURDIR)/tools.mod staticcheck ./bd

torture: build ## random histories, faults, power cuts, then repeated kill -9; CYCLES=100 SEED=n DATA=folder CHECKS=n CUTS=n NODES=3 OLD=program
	$(GO) build -trimpath -tags torture -o bin/mailroom-torture ./cmd/mailroom
	$(GO) build -trimpath -o bin/torture ./torture
ifeq ($(NODES),)
	$(GO) test ./ledger -count 1 -timeout 30m -run TestRandomHistories -v -rapid.checks=$(or $(CHECKS),200) -rapid.steps=60
	$(GO) test ./ledger -count 1 -timeout 30m -run CanBeRepeatedAfterAnyFault -all
	cd store/sqlite/powercut && $(GO) test -count 1 -timeout 30m -v . -cuts $(or $(CUTS),300)
endif
	bin/torture -cycles $(or $(CYCLES),100) $(if $(NODES),-nodes "$$NODES") $(if $(OLD),-old "$$OLD") $(if $(SEED),-seed "$$SEED") $(if $(DATA),-data "$$DATA")

attack: build ## attack a server as hostile clients would; ONLY=name SERVER=program JUDGE=false
	$(GO) build -trimpath -o bin/attack ./torture/attack
	bin/attack -server $(or $(SERVER),bin/mailroom) $(if $(ONLY),-only "$$ONLY") $(if $(JUDGE),-judge=$(JUDGE))

mutants: ## break each guarantee in the source; its test must fail; ONLY=path
	$(GO) run ./torture/mutants $(if $(ONLY),-only "$$ONLY")

chaos: ## clients on a bad network while the server is killed; KILLS=10 WORDS=300 SEED=n
	$(GO) test ./torture -count 1 -timeout 30m -v -run BehindABadNetwork -kills $(or $(KILLS),10) -words $(or $(WORDS),300) $(if $(SEED),-seed "$$SEED")

fuzz: ## run every fuzz target; TIME=10s for each, FUZZ=name for one
	@set -e; found=; \
	folders=$$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); \
	for folder in $$folders; do \
		listed=$$($(GO) test -list '^Fuzz' $$folder); \
		for name in $$listed; do \
			case $$name in $(or $(FUZZ),Fuzz*)) ;; *) continue ;; esac; \
			echo "$$folder $$name"; found=yes; \
			$(GO) test $$folder -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(TIME),10s) -fuzzminimizetime 1s; \
		done; \
	done; \
	[ -n "$$found" ] || { echo "no fuzz target matches $(FUZZ)" >&2; exit 1; }

bench: build ## measure this machine; PARTS="runs latency" FOR=60s DATA=folder, see docs/benchmarks.md
	@exec bin/mailroom bench $(PARTS) --for $(or $(FOR),10s) $(if $(DATA),--data "$$DATA")

bench-bd: build ## measure the tracker's command on this machine; ROUNDS=15 DATA=folder BD="bin/mailroom issue"
	cd bench && $(GO) build -trimpath -o ../bin/bench-bd ./bd
	@exec bin/bench-bd -rounds $(or $(ROUNDS),15) $(if $(DATA),-data "$(abspath $(DATA))") $(or $(BD),bin/bd)

peers: build ## compare with other queues under the same load; ROUNDS=3 FOR=60s ONLY=asynq,jetstream RATE=100 DATA=folder
	cd bench && $(GO) vet ./peers && $(GO) test ./peers && $(GO) build -o ../bin/peers ./peers
	@cd bench && exec ../bin/peers -mailroom ../bin/mailroom -rounds $(or $(ROUNDS),3) -for $(or $(FOR),10s) $(if $(ONLY),-only $(ONLY)) \
		$(if $(RATE),-rate $(RATE)) $(if $(DATA),-data "$(abspath $(DATA))")

cover: ## measure test coverage; details in bin/cover.html
	@mkdir -p bin
	$(GO) test -coverpkg=./... -coverprofile=bin/cover.out ./...
	@$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	@$(GO) tool cover -func=bin/cover.out | tail -n 1

compiler: ## check for the C compiler that the race detector needs; as root, install it
	@cc=$$($(GO) env CC); \
	works() { echo '#include <stdlib.h>' | $$cc -E - >/dev/null 2>&1; }; \
	if ! works && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends gcc libc6-dev; \
	fi; \
	works || { echo "the race detector needs a C compiler ($$cc does not work): install gcc and the C library's headers, on Debian: apt-get install gcc libc6-dev" >&2; exit 1; }

browser: ## check for Node and Chromium, which test the pages; as root, install Chromium
	@node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || a === 20 && b >= 10 ? 0 : 1)' 2>/dev/null && command -v npm >/dev/null || \
		{ echo "the JavaScript client and the pages are tested with Node: install Node 20.10 or later with npm" >&2; exit 1; }
	@has() { [ -x "$$CHROMIUM" ] || command -v chromium chromium-browser google-chrome >/dev/null; }; \
	if ! has && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends chromium fonts-dejavu-core; \
	fi; \
	has || { echo "the pages are tested in Chromium: install it, on Debian: apt-get install chromium, or set CHROMIUM to another browser" >&2; exit 1; }

# The package's install script would start a public IRC server; RUNLEVEL=1 prevents it.
ircd: ## check for the IRC server that tests the IRC channel; as root, install it
	@has() { [ -x /usr/sbin/ngircd ] || command -v ngircd >/dev/null; }; \
	if ! has && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -yq --no-install-recommends ngircd && \
			{ systemctl disable --now ngircd >/dev/null 2>&1 || true; }; \
	fi; \
	has || { echo "the tests of the IRC channel need ngircd: install it, on Debian: apt-get install ngircd" >&2; exit 1; }

# The package's install script would start a mail server; RUNLEVEL=1 prevents it. Another mail server stays:
# --no-remove fails instead, because only one can be installed.
smtpd: ## check for the mail server that tests alerts by e-mail; as root, install it
	@has() { [ -x /usr/sbin/exim4 ] || [ -x /usr/sbin/exim ] || command -v exim4 exim >/dev/null; }; \
	if ! has && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -yq --no-install-recommends --no-remove exim4-daemon-light && \
			{ systemctl disable --now exim4 >/dev/null 2>&1 || true; }; \
	fi; \
	has || { echo "the tests of alerts by e-mail need Exim: install it, on Debian: apt-get install exim4-daemon-light" >&2; exit 1; }

# The package would start a cluster of its own; create_main_cluster = false prevents it.
postgres: ## check for PostgreSQL, which tests start as private clusters; as root, install it
	@has() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; }; \
	if ! has && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && export DEBIAN_FRONTEND=noninteractive && \
			apt-get install -yq --no-install-recommends postgresql-common && \
			sed -ri 's/^#?(create_main_cluster) .*$$/\1 = false/' /etc/postgresql-common/createcluster.conf && \
			apt-get install -yq --no-install-recommends postgresql; \
	fi; \
	has || { echo "the tests of the PostgreSQL store need its server: install it, on Debian: apt-get install postgresql" >&2; exit 1; }

programs: ## check for the programs that the examples of the manual run; as root, install them
	@missing() { for p in python3 openssl curl; do command -v $$p >/dev/null || echo $$p; done; }; \
	if [ -n "$$(missing)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $$(missing); \
	fi; \
	[ -z "$$(missing)" ] || { echo "tests run the examples of the manual, which need programs that are missing: on Debian, apt-get install" $$(missing) >&2; exit 1; }

clean: ## remove build results
	rm -rf bin clients/js/node_modules $(MCP)/node_modules web/node_modules $(PROGRAMS)/node_modules $(ELEMENT)/node_modules
