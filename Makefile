# cygnet: IKEv2/IPsec gateway.  "make help" explains the targets.
SHELL := /bin/bash
GO    ?= go
BIN   := bin
# What "ikectl version" says; empty outside a repository, then only the release is known.
VERSION := $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null)
# Where "make install" puts things; DESTDIR is for packages.
PREFIX  ?= /usr
# Packages whose concurrency is worth the race detector.
RACE  := ./ike/control ./ike/daemon ./ike/transport ./xfrm/userspace

.DEFAULT_GOAL := help
.PHONY: help build install uninstall check vet unit race demo clean-demo test lint fuzz mutants sim interop soak lab bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

build: ## bin/cygnetd and bin/ikectl
	@test/prepare go
	$(GO) build -trimpath -buildvcs=false -ldflags '-X cygnet/ike/control.described=$(VERSION)' -o $(BIN)/ ./cmd/...

install: ## what "make build" made, the systemd unit and the examples, under DESTDIR and PREFIX (/usr); never touches /etc/cygnet
	@[ -x $(BIN)/cygnetd ] && [ -x $(BIN)/ikectl ] || $(MAKE) --no-print-directory build
	install -D -m 0755 $(BIN)/cygnetd $(DESTDIR)$(PREFIX)/sbin/cygnetd
	install -D -m 0755 $(BIN)/ikectl $(DESTDIR)$(PREFIX)/bin/ikectl
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/\(s\?bin\)/|$(PREFIX)/\1/|' configs/cygnetd.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/cygnetd.service
	chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/cygnetd.service
	cd configs && find site-to-site reference.toml -type f -exec install -D -m 0644 {} $(abspath $(DESTDIR)$(PREFIX)/share/doc/cygnet/examples)/{} \;

uninstall: ## removes what "make install" put in place (same DESTDIR and PREFIX); /etc/cygnet and what a daemon left on the host stay
	@! pgrep -x cygnetd >/dev/null 2>&1 || [ -n "$(DESTDIR)" ] || { echo "cygnetd is running: stop it first (systemctl disable --now cygnetd); cygnetd --flush then lifts its blocks" >&2; exit 1; }
	rm -f $(DESTDIR)$(PREFIX)/sbin/cygnetd $(DESTDIR)$(PREFIX)/bin/ikectl $(DESTDIR)$(PREFIX)/lib/systemd/system/cygnetd.service
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/cygnet

vet:
	@out=$$(gofmt -l cmd ike policy test xfrm) && [ -z "$$out" ] || { echo "gofmt would change: $$out" >&2; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags interop ./test/...

unit:
	$(GO) test ./...
	@$(GO) test -v -run '^TestEveryTrap$$' ./test/traps | grep ' lines: '

check: build vet unit ## build, vet, import rules and unit tests: what every commit passes (under 3 minutes)

race: ## the race detector on the packages with goroutines
	$(GO) test -race $(RACE)

test: ## everything that needs no foreign peer and no VM: the README's test command
	@test/prepare go race demo
	$(MAKE) --no-print-directory check race

demo: ## two sites, a tunnel, data, proof: the main job on this machine, as root
	@test/prepare go demo
	@$(MAKE) --no-print-directory -s build
	@$(GO) build -o $(BIN)/demo ./test/demo
	@$(BIN)/demo -bin $(BIN)

clean-demo: ## removes all that an interrupted demo left
	@$(GO) run ./test/demo -clean

lint: ## vet, staticcheck, and go.mod as it should be
	@test/prepare go
	$(GO) mod tidy -diff
	$(MAKE) --no-print-directory vet
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

fuzz: ## N fuzz targets for SECONDS each, chosen by SEED (N=all SECONDS=15)
	@test/fuzz $(or $(N),all) $(or $(SECONDS),15) $(or $(SEED),0)

mutants: ## plants N bugs (N=200) chosen by SEED and counts those that the tests notice
	$(GO) run ./test/mutants -n $(or $(N),200) -seed $(or $(SEED),0) -min $(or $(MIN),85)

sim: ## the deterministic simulation: SEEDS runs (SEEDS=10000) from seed FIRST
	$(GO) test ./test/sim -run '^(TestSim|TestImpairedPeers)$$' -seeds $(or $(SEEDS),10000) -first $(or $(FIRST),1) -liars 1500 -timeout 10h -v

interop: build ## live rows against strongSwan and own against own on this kernel, as root
	@test/prepare go demo peers
	@log=$$(mktemp); REQUIRE=peers,root $(GO) test -v -tags interop -count 1 -timeout 60m ./test/interop -run '^(TestRigItself$$|TestUserspace)' >$$log 2>&1; rc=$$?; \
	if [ $$rc = 0 ] && ! grep -q FLAKY $$log; then sed -n '/^peer  /,$$p' $$log; else cat $$log; fi; rm -f $$log; exit $$rc

soak: build ## two tunnels over a WAN that loses and reorders for SECONDS (3600), chosen by SEED: every packet is accounted for; as root
	@test/prepare go demo peers
	@$(GO) build -o $(BIN)/soak ./test/soak
	@$(BIN)/soak -bin $(BIN) -seconds $(or $(SECONDS),3600) -seed $(or $(SEED),1)

lab: build ## a real kernel with ESP in a VM: the kernel driver, strongSwan, Libreswan
	@test/prepare go demo peers lab
	REQUIRE=lab test/lab/run

bench: ## userspace ESP against wireguard-go, strongSwan, OpenVPN and plain forwarding, as root (ROUNDS=5; SMOKE=1: short, fails only at worse than half)
	@test/prepare go demo bench $(if $(SMOKE),,peers)
	$(GO) run ./test/bench $(if $(SMOKE),-smoke) $(if $(ROUNDS),-rounds $(ROUNDS))

clean: ## removes what was built
	rm -rf $(BIN)
