# Every target is go and nothing else; make only remembers the flags.

# The race detector needs a C compiler, and a machine with Go alone has none: there
# the tests run without it and say so. On CI that is a failure.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

# How many runs of the simulation there are without the race detector, which is what they
# are found with; with it, there are a few more in the line before.
SEEDS := 5000

.PHONY: test check release race-detector bench chaos

# All there is: the product's tests, then those against the other clients and servers.
# The latter run without -race: they measure how soon a lock passes on, with JVMs as
# peers, and the detector's slowness would be all that they see. What they exercise
# runs under -race in the first line. No package is named there: with a pattern, go would
# hide the figures that passing tests print, and what was left out for want of a peer.
test: check release race-detector
	go test $(RACE) -shuffle=on ./...
	go test -count=1 -run='^(TestSimulation|TestASeedIsReplayed)$$' -v ./chaos -seeds=$(SEEDS)
	go test -count=1 -run='^TestWaitersStandOnSmallStacks$$' -v .
	go test -count=1 -run='^TestNoOperationIsUnbounded$$' -v ./zkserver
	go test -count=1 -run='^TestZxidReplay$$' -v ./chaos -replay-ops=100000
	go test -count=1 -run='^TestEveryBugIsCaught$$' -timeout=20m -v ./chaos/mutants -mutants
	cd interop && go test -shuffle=on -timeout=60m -minutes=10

# What a compiler can say, also for the systems that this machine is not.
check:
	@unformatted=$$("$$(go env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	GOOS=linux go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...
	cd interop && go vet ./...

# The command as it is released, for the system that GOOS and GOARCH name: without cgo, so
# that it runs with any libc and starts sooner, and without symbols. At most 15 MB.
release:
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/holdfast
	@for f in bin/holdfast*; do \
		size=$$(wc -c <"$$f"); echo "$$f: $$size bytes"; \
		if [ "$$size" -gt 15000000 ]; then echo "more than 15 MB"; exit 1; fi; \
	done

race-detector:
ifeq ($(RACE),)
	@echo "no C compiler found: the tests run without the race detector (on Debian: apt-get install gcc libc6-dev)"
	@if [ "$$CI" = true ]; then exit 1; fi
endif

# The table of docs/explanation/benchmarks.md and its plots: six rounds of everything, some ten
# minutes. BENCH='Table$$/^(1|8)-' measures some rows and prints them;
# BENCHFLAGS=-quick is rougher.
BENCH ?= Table$$
ROUNDS ?= 6
bench:
	cd interop && go test -run='^$$' -bench='$(BENCH)' -benchtime=$(ROUNDS)x -timeout=30m $(BENCHFLAGS) $(if $(filter Table$$,$(BENCH)),-table=../docs/explanation/benchmarks.md)

# A real ensemble of three, hurt for so many minutes while processes take locks from it.
MINUTES := 10
chaos:
	cd interop && go test -run='^TestChaos$$' -timeout=0 -v -minutes $(MINUTES) -chaos-out "$$PWD/chaos.json"
