# Every target works from a fresh clone. They need Go and nothing else, except that race
# and nightly also need a C compiler, and that tests of PostgreSQL need its server: it is
# installed where it is missing and may be, and otherwise those tests are skipped.

FUZZTIME ?= 10s
BENCHTIME ?= 1s
BENCH ?= .
SEEDS ?= 1 2 3
SCHEDULES ?= 10000
LIST_ROWS ?= 1000000
FILE_SCHEDULES ?= 500

# The linter is pinned here and nowhere else; it is no dependency of the module.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help demo drill test race lint bench bench-gateway conformance microbench lists fuzz model mutants simulate nightly postgres

help: ## This list
	@echo 'usage: make TARGET [NAME=VALUE]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'example: make fuzz FUZZTIME=1m'

demo: ## Lose answers and kill workers, and watch each effect happen once
	go run ./cmd/pawl demo

drill: ## Play tau-bench's retail tasks through the daemon, faults of each mode (SEEDS="1 2 3", STORE=postgres://… for four daemons there, too); PAWL_CORPORA says where they are
	@test -n "$$PAWL_CORPORA" || { echo 'PAWL_CORPORA is not set: it names the folder with tau-bench-v1/retail' >&2; exit 1; }
	@binary=$$(mktemp) && trap 'rm -f "$$binary"' EXIT && go build -o "$$binary" ./cmd/pawl && \
	"$$binary" drill retail --data "$$PAWL_CORPORA" --faults none && \
	"$$binary" drill retail --data "$$PAWL_CORPORA" --faults lost && \
	for seed in $(SEEDS); do "$$binary" drill retail --data "$$PAWL_CORPORA" --faults mix --seed $$seed || exit 1; done && \
	if test -n "$(STORE)"; then "$$binary" drill retail --data "$$PAWL_CORPORA" --faults mix --store "$(STORE)" --daemons 4 --kill-every 1s; fi

# Packages are tested one after the other: many wait for real time-outs of processes that
# they start, and side by side on few cores they take each other's time.
test: postgres ## Vet and test everything
	go vet ./...
	go test -p 1 ./...

# The race detector sees nothing of other processes, which is what the tests of the left out
# packages are about.
race: postgres ## Test under the race detector what runs in one process
	go test -race -p 1 -count=1 -timeout=30m $$(go list ./... | grep -v -e /cmd/ -e /internal/ -e /examples/ -e /model -e blackbox -e conformance)

postgres:
	@scripts/postgres

lint: ## Format, vet (for Windows and macOS too), static analysis, and go.mod as the code needs it
	@unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { echo "run gofmt -w on: $$unformatted" >&2; exit 1; }
	go vet ./...
	GOOS=windows go vet ./...
	GOOS=darwin go vet ./...
	go run $(STATICCHECK) ./...
	go mod tidy -diff

microbench: postgres ## Run Go benchmarks (BENCH=pattern, BENCHTIME=1s), each beside its "bare" sibling as a ratio
	@go test -run='^$$' -bench='$(BENCH)' -benchtime=$(BENCHTIME) -benchmem ./... | awk "$$RATIOS"

lists: postgres ## Time a page of every list on each store, with LIST_ROWS operations on record; over 20 ms fails
	PAWL_LIST_ROWS=$(LIST_ROWS) go test -p 1 -count=1 -timeout=60m -v -run='^TestLists$$' ./sqlite ./postgres

fuzz: ## Run every fuzz target for FUZZTIME (a time, or a count such as 5000x)
	@listed=$$(go test -list='^Fuzz' ./...) || { echo "$$listed" >&2; exit 1; }; \
	echo "$$listed" | awk '/^Fuzz/ { name[n++] = $$1 } $$1 == "ok" { for (i = 0; i < n; i++) print $$2, name[i]; n = 0 }' | \
	while read -r package target; do \
		echo "fuzz $$package $$target"; \
		go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=5s "$$package" </dev/null || exit 1; \
	done

bench: ## Measure whole calls beside the least they can cost and beside others, into docs/performance.md (ARGS=flags)
	cd bench && go run . -out ../docs/performance.md $(ARGS)

bench-gateway: ## Measure a read and an effect through the MCP gateway beside the bare upstream (BENCHTIME=1s)
	@go test -run='^$$' -bench='^BenchmarkGateway$$' -benchtime=$(BENCHTIME) -cpu=1 ./gateway/blackbox | awk "$$RATIOS"

conformance: ## Hold the MCP gateway against the official suite, the Inspector and servers from npm, which it installs (ARGS=flags)
	cd gateway/conformance && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && go vet . && go test -count=1 . $(ARGS)

model: ## Check the protocol model with SPIN (ARGS=-quick for one row of each kind)
	go run ./model $(ARGS)

mutants: ## Switch off the rules of the protocol one at a time and show that a test of each fails
	go run ./internal/rule/prove

simulate: ## Play seeded schedules of calls, faults and crashes in fake time: SCHEDULES in memory, FILE_SCHEDULES on SQLite files
	go test -count=1 -timeout=60m -run '^TestSimulation$$' . -simulation.seeds $(SCHEDULES)
	go test -count=1 -timeout=60m -run '^TestSimulationOnSQLite$$' . -simulation.seeds $(FILE_SCHEDULES)

nightly: postgres ## Race detector with 5,000 runs of each property, 20,000 simulated schedules in memory and 3,000 on files, every list at a million rows, 20 seeds of the drill, 5 minutes of each fuzz target
	RAPID_CHECKS=5000 go test -race -p 1 -count=1 -timeout=120m ./...
	PAWL_EVERY_POINT=1 go test -count=1 -timeout=60m ./internal/crash
	PAWL_CLOCKS=1 go test -count=1 -timeout=30m -run '^TestClocksApart$$' ./internal/workers
	$(MAKE) lists
	$(MAKE) simulate SCHEDULES=20000 FILE_SCHEDULES=3000
	@if test -n "$$PAWL_CORPORA"; then $(MAKE) drill SEEDS='1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20'; else \
		echo 'PAWL_CORPORA is not set: the drill is skipped'; fi
	$(MAKE) model ARGS='-j 2'
	go run ./model -table formulas.tsv
	$(MAKE) fuzz FUZZTIME=5m

# A benchmark that has a sub-benchmark "bare" is measured against it: BenchmarkCall/pawl/64
# against BenchmarkCall/bare/64. The ratio is one of speeds from the same run, so it means
# the same on a fast machine and on a slow one. A benchmark that takes turns with its rival
# reports a ratio of its own.
define RATIOS
{ print; fflush() }
/^FAIL/ { failed = 1 }
/^Benchmark.* ns\/op/ { name = $$1; sub(/-[0-9]+$$/, "", name); took[name] = $$3; order[n++] = name }
END {
	for (i = 0; i < n; i++) {
		parts = split(order[i], part, "/")
		for (j = 2; j <= parts; j++) {
			if (part[j] == "bare") continue
			bare = part[1]
			for (k = 2; k <= parts; k++) bare = bare "/" (k == j ? "bare" : part[k])
			if (bare in took) printf "%-60s %6.2f x the speed of bare\n", order[i], took[bare] / took[order[i]]
		}
	}
	exit failed || n == 0
}
endef
export RATIOS
