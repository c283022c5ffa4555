# The tests are in test.sh, which needs no make.
.PHONY: check release quick test beside contrib prove bench chaos
check release quick test beside contrib prove:
	sh test.sh $@

# The files of a release for eight systems, in dist, with progress: some ten minutes (docs/contributing/release.md).
.PHONY: dist
dist:
	@test -n '$(VERSION)' || { echo 'give a version: make dist VERSION=v0.1.0' >&2; exit 2; }
	rm -rf dist
	cd packaging && go run . -version '$(VERSION)' -url '$(URL)' -out ../dist

# One file for this machine, in dist, of the sources as they are: some minutes at most.
.PHONY: deb rpm image
deb rpm image:
	cd packaging && go run . -one $@ -out ../dist

# The table of docs/explanation/benchmarks.md and its plots: six rounds of everything, up to
# 25 minutes. BENCH='Table$$/^(1|8)-' measures some rows and prints them;
# BENCHFLAGS=-quick is rougher.
BENCH ?= Table$$
ROUNDS ?= 6
bench:
	cd interop && go test -run='^$$' -bench='$(BENCH)' -benchtime=$(ROUNDS)x -timeout=30m $(BENCHFLAGS) $(if $(filter Table$$,$(BENCH)),-table=../docs/explanation/benchmarks.md)

# A real ensemble of three, hurt for so many minutes while processes take locks from it.
MINUTES := 10
chaos:
	cd interop && go test -run='^TestChaos$$' -timeout=0 -v -minutes $(MINUTES) -chaos-out "$$PWD/chaos.json"
