# Everything that is done with this tree by hand or by machine. `make` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

# What a caller may set: make test RACE=1 PKG=./internal/store RUN=TestLoad
PKG       ?= ./...
RUN       ?=
RACE      ?=
COUNT     ?= 1
TIMEOUT   ?= 10m
FUZZTIME  ?= 30s
BENCH     ?= .
BENCHTIME ?= 1s
BENCH_ARGS ?=
PEERS_ARGS ?=
BASE      ?=
DEMO_ARGS ?=
SEEDS     ?= 2000
SEED_BASE ?= 1
SHORT     ?=
MINUTES   ?= 30
FAULTS    ?= all

GOLANGCI_VERSION := v2.15.0
CACHE            := $(CURDIR)/.cache
GOLANGCI         := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
TESTCOUNT        := $(CACHE)/bin/testcount
TEST_JSON        := $(CACHE)/test.json

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --verify HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help
help: ## list the targets
	@echo 'usage: make TARGET [VARIABLE=value …]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/processor
	go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/processor ./cmd/processor

.PHONY: install
install: ## put processor where "go install" puts programs (GOBIN=…); have that folder on PATH
	go install -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' ./cmd/processor
	@gobin=$$(go env GOBIN); echo "installed $${gobin:-$$(go env GOPATH)/bin}/processor"

.PHONY: demo
demo: build ## play recorded runs through everything, in one process (DEMO_ARGS=…)
	bin/processor demo $(DEMO_ARGS)

.PHONY: test
test: redis $(TESTCOUNT) ## run all tests (RACE=1, PKG=./internal/…, RUN=regexp, COUNT=n); the output is kept in .cache/test.json
	@go test -json -count=$(COUNT) -timeout=$(TIMEOUT) $(if $(RACE),-race) $(if $(RUN),-run '$(RUN)') $(PKG) \
		| tee $(TEST_JSON) | $(TESTCOUNT)

.PHONY: requirements
requirements: ## check docs/requirements.md against the tests that ran last (run test first)
	@go run -buildvcs=false ./scripts/requirements docs/requirements.md $(TEST_JSON)

.PHONY: sim
sim: ## find each deliberate fault (FAULTS=all, part of a name, or none), then play seeds with simulated trouble (SEEDS=n from SEED_BASE=b on); SEED=s plays one step by step
	@go build -buildvcs=false -o $(CACHE)/bin/sim ./scripts/sim
ifdef SEED
	@$(CACHE)/bin/sim -seed $(SEED)
else
	@[ '$(FAULTS)' = none ] || SIM_FAULTS='$(FAULTS)' go test -count=1 -timeout=$(TIMEOUT) -v ./internal/processor/sim/faults
	@$(CACHE)/bin/sim -seeds $(SEEDS) -base $(SEED_BASE)
endif

.PHONY: chaos
chaos: redis ## break real servers, processors, networks and disks under load, as root, some 20 minutes (SHORT=1 for two of them, RUN=regexp); prints what was seen
	@CHAOS_SHORT=$(SHORT) go test -tags chaos -count=1 -timeout=90m -v -run '$(or $(RUN),$(if $(SHORT),^TestShort,.))' ./internal/chaos

.PHONY: soak
soak: redis ## random faults under load for MINUTES=30 (at least 2; SOAK_SEED=n plays some again); exit 1 when something grows
	@SOAK_MINUTES=$(MINUTES) go test -tags chaos,soak -count=1 -timeout=0 -v -run '^TestSoak$$' ./internal/chaos

.PHONY: race
race: ## run all tests with the race detector
	@$(MAKE) test RACE=1

.PHONY: lint
lint: $(GOLANGCI) ## check formatting, go vet, the linters with the import rules, and go.mod
	@echo 'gofmt'; files=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)); \
		[ -z "$$files" ] || { echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; }
	go vet -tags chaos,soak ./...
	$(GOLANGCI) run ./...
	go mod tidy -diff
	go mod verify

.PHONY: fuzz
fuzz: redis ## run every fuzz target for FUZZTIME (30s) each
	@FUZZTIME=$(FUZZTIME) scripts/fuzz $(PKG)

.PHONY: bench
bench: redis build ## measure processor and floor on this machine (BENCH_ARGS='--seconds 20 --json', see bin/processor bench --help)
	bin/processor bench $(BENCH_ARGS)

.PHONY: peers
peers: redis build ## measure runledger beside Watermill, asynq and Temporal (PEERS_ARGS='--seconds 20 --rounds 3 --json'); the first build takes minutes
	cd bench/peers && go build -buildvcs=false -o ../../bin/peers .
	bin/peers --processor bin/processor $(PEERS_ARGS)

.PHONY: gobench
gobench: redis ## run all Go benchmarks (BENCH=regexp, BENCHTIME=1s)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime=$(BENCHTIME) -timeout=$(TIMEOUT) $(PKG)

.PHONY: bench-compare
bench-compare: redis ## compare the Go benchmarks with another revision (BASE=rev, BENCH=regexp, BENCHTIME=0.3s, COMPARE_COUNT=6)
	@BENCH='$(BENCH)' BENCHTIME='$(if $(filter file,$(origin BENCHTIME)),,$(BENCHTIME))' scripts/bench-compare '$(BASE)'

.PHONY: cover
cover: redis ## measure how much of each package its tests reach
	@mkdir -p $(CACHE)
	go test -coverprofile=$(CACHE)/cover.out -timeout=$(TIMEOUT) $(PKG)
	@go tool cover -func=$(CACHE)/cover.out | tail -1
	@go tool cover -html=$(CACHE)/cover.out -o $(CACHE)/cover.html
	@echo 'line by line: .cache/cover.html'

.PHONY: full
full: ## everything at length, hours: lint, race ten times over, requirements, 10,000 seeds, all faults, half an hour of soak, five minutes a fuzz target, benchmarks, demo
	@$(MAKE) lint
	@$(MAKE) test RACE=1 COUNT=10 TIMEOUT=60m
	@$(MAKE) requirements
	@$(MAKE) sim SEEDS=10000 TIMEOUT=60m
	@$(MAKE) chaos
	@$(MAKE) soak
	@$(MAKE) fuzz FUZZTIME=5m
	@$(MAKE) gobench TIMEOUT=60m
	@$(MAKE) bench
	@$(MAKE) bench BENCH_ARGS='--matrix --rounds 1'
	@$(MAKE) demo

.PHONY: clean
clean: ## remove what was built, the tools in .cache included
	rm -rf bin .cache

.PHONY: redis
redis:
	@scripts/need-redis

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION), once, some two minutes"
	GOBIN=$(@D) GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

# go build knows best whether it is out of date.
.PHONY: $(TESTCOUNT)
$(TESTCOUNT):
	@go build -buildvcs=false -o $@ ./scripts/testcount
