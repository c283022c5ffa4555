#!/bin/sh
# Runs the tests: sh test.sh [check|quick|test|beside|contrib|prove|api|vuln]...; without an argument: test.
#
#   check    formatting, go vet, staticcheck, the size of the command, the API
#   quick    the product's tests that take a few seconds at most, without the race detector: two minutes,
#            needs nothing but Go
#   test     check, and the product's tests with the race detector: 20 minutes
#   beside   the product's tests against the clients and servers of others, without the longest: 12 minutes
#   contrib  the modules below contrib and packaging: vet, staticcheck, tests
#   prove    what takes longer: every seeded bug, 5,000 seeds of the simulation, fuzzing, chaos on an
#            ensemble, the release, and govulncheck if its database answers: 45 minutes, and FUZZTIME for each of the fuzz tests. PART=1, 2 or 3 is for a
#            third of the bugs and of the fuzz tests, fewer seeds and one of the large modules, CHAOS_MINUTES for less chaos
#   api      incompatible API changes since the last release; API_BASE is another commit to compare with
#   vuln     known vulnerabilities of what is linked; it needs the database of Go's, or a copy: GOVULNDB
#
# A step that fails does not stop the others. A test that fails is repeated ten times, alone, beside two processes
# that compute. If it passes ten times, it is reported as FLAKY, and does not fail the run.
# At the end come all results, with times.
#
# docs/contributing/tests.md has the times. A test that lacks a program says so in a line and is left
# out. With CI=true it fails.
set -eu
cd "$(dirname "$0")"
tools=$PWD/tools/go.mod
vulndb=https://vuln.go.dev

# The tests against others that take longest. They run in prove and nowhere else.
long='^(TestChaos|TestClientMatrix|TestCommandsOfTwoHoldersNeverRunTogether|TestCounterUnderTheLockLosesNoUpdate|TestEveryOperationUnderFaults|TestGoZookeepersOwnTestsPassOnHoldfastServe|TestHoldfastServeAnswersAsApacheZooKeeper|TestKazoosOwnTestsPassOnHoldfastServe|TestLeaseEndsBeforeTheEnsembleRemovesTheNode|TestOnceWhileServersAreKilled|TestShardsWhileServersAreKilled|TestSlotsWhileServersAreKilled)$'

# These modules have 700 to 1,000 packages below them, so prove alone runs their tests, without the race detector.
large='contrib/caddyholdfast contrib/kubernetesholdfast'

# The other modules beside the product and interop.
modules() {
	for module in contrib/*/go.mod packaging/go.mod; do
		module=${module%/*}
		case " $large " in
		*" $module "*) ;;
		*) echo "$module" ;;
		esac
	done
}

# The race detector needs cgo, and cgo a C compiler.
race=
if [ "$(go env CGO_ENABLED)" = 1 ]; then
	race=-race
fi

# step NAME [-C DIR] COMMAND runs a command, or tests, and notes the results. It always succeeds.
step() { "$work/runtests" step "$@"; }

do_check() {
	step "gofmt" sh -c 'unformatted=$("$(go env GOROOT)/bin/gofmt" -l .); [ -z "$unformatted" ] || { echo "not formatted, run gofmt -w on:" $unformatted >&2; exit 1; }'
	for os in linux darwin windows; do
		step "go vet" env GOOS=$os go vet ./...
	done
	step "go vet" -C interop go vet ./...
	step "staticcheck" go tool -modfile="$tools" staticcheck ./...
	step "staticcheck" -C interop go tool -modfile="$tools" staticcheck ./...
	do_release
	do_api
}

# The command as it is released: without cgo, so that it runs with any libc and starts sooner, and
# without symbols. At most 13 MB: what needs a large library is a program of its own beside it.
do_release() {
	step "release" env CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/holdfast
	step "release" sh -c 'size=$(($(wc -c <bin/holdfast))); echo "bin/holdfast: $size bytes"; [ "$size" -le 13300000 ] || { echo "bin/holdfast: more than 13.3 MB" >&2; exit 1; }'
}

# Changes of the exported names since the last release, after which a program that compiled may not compile. An
# intended one is a line of tools/api-changes.txt, which each release empties.
do_api() {
	base=${API_BASE:-$(git describe --tags --abbrev=0 --match='v[0-9]*' 2>/dev/null || true)}
	step "API${base:+, compared with $base}" sh -euc "$api" api "$base" "$tools"
}
api='
if [ -z "$1" ]; then
	echo "there is no release to compare with"
	exit
fi
tmp=$(mktemp -d)
trap "rm -rf \"$tmp\"" EXIT
mkdir "$tmp/old"
git archive "$1" | tar -x -C "$tmp/old"
(cd "$tmp/old" && go tool -modfile="$2" apidiff -m -w "$tmp/export" holdfast)
go tool -modfile="$2" apidiff -m -incompatible "$tmp/export" holdfast >"$tmp/report"
grep "^- " "$tmp/report" | grep -vxF -f tools/api-changes.txt >"$tmp/unexpected" || true
if [ -s "$tmp/unexpected" ]; then
	echo "programs that use these may not compile; if that is intended, add the lines to tools/api-changes.txt:" >&2
	cat "$tmp/unexpected" >&2
	exit 1
fi
'

# Vulnerabilities that are known of the code that the command calls.
do_vuln() {
	step "govulncheck${GOVULNDB:+, with the database $GOVULNDB}" go tool -modfile="$tools" govulncheck ${GOVULNDB:+-db "$GOVULNDB"} ./...
}

do_quick() {
	step "go vet" go vet ./...
	# Most tests wait for processes or timers, so more of them run at a time than there are cores.
	step "quick" go test -short -shuffle=on -p=6 -parallel=12 ./...
}

do_test() {
	do_check
	if [ -z "$race" ]; then
		step "race detector" sh -c 'echo "no C compiler: the tests run without the race detector (on Debian: apt-get install gcc libc6-dev)"; [ "${CI:-}" != true ]'
	fi
	# Four at a time: under the race detector, the command computes more than it waits.
	step "the product" go test $race -shuffle=on -parallel=4 -timeout=30m ./...
	# In lines of their own for the figures that they print.
	step "figures" go test -count=1 -run='^TestWaitersStandOnSmallStacks$' -v .
	step "figures" go test -count=1 -run='^TestNoOperationIsUnbounded$' -v ./zkserver
	step "figures" go test -count=1 -run='^(TestSimulation|TestASeedIsReplayed|TestSchedulesAreReplayed)$' -v ./chaos -seeds=500
}

# Without the race detector: the tests measure how soon a lock passes on.
do_beside() {
	step "beside others" -C interop go test -shuffle=on -timeout=40m -skip="$long"
}

do_contrib() {
	for module in $(modules); do
		step "vet of the other modules" -C "$module" go vet ./...
		step "vet of the other modules" -C "$module" go tool -modfile="$tools" staticcheck ./...
	done
	for module in $(modules); do
		case $module in
		contrib/cronholdfast | contrib/gocronholdfast)
			# On one processor, since the race detector itself crashes on two (in 3 of 8 runs, with Go 1.26.8; in none
			# of 42 on one). The cause seems to be that all processors run the timers of a synctest bubble with one
			# context of the detector (unlockAndRun in runtime/time.go).
			step "the other modules" -C "$module" go test $race -cpu=1 -shuffle=on ./...
			;;
		# -count=1, since the cache of go test does not notice changes outside the module, such as documents.
		*) step "the other modules" -C "$module" go test $race -count=1 -shuffle=on ./... ;;
		esac
	done
}

do_prove() {
	# It runs TestSimulation with that many seeds, and wants nine statements of ten executed, and all rare states reached.
	step "simulation" go test -count=1 -run='^TestSimulationCoversTheLocks$' -v ./chaos -covered=5000
	step "specification" go test -count=1 -run='^TestEveryStateKeepsThePromises$' -v ./chaos/spec -states=1500000
	step "schedules" go test -count=1 -run='^TestExplore$' -timeout=15m -v ./chaos -schedules=30000
	seeds=1000
	[ -z "${PART:-}" ] || seeds=400
	for kind in Once Shards Slots Reservations Detached Turns Processes; do
		step "simulation" go test -count=1 -run="^TestSimulationOf$kind\$" -v ./chaos -seeds="$seeds"
	done
	case ${PART:-2} in
	2) step "simulation" go test -count=1 -run='^TestTenThousandShards$' ./shards -many-shards ;;
	esac
	step "simulation" go test -count=1 -run='^TestZxidReplay$' -v ./chaos -replay-ops=100000
	step "seeded bugs" go test -count=1 -run='^TestEveryBugIsCaught$' -timeout=60m -v ./chaos/mutants -mutants -part="${PART:-0}"
	step "beside others, longer" -C interop go test -shuffle=on -timeout=60m -run="$long" -minutes="${CHAOS_MINUTES:-10}" -cuts=20
	case ${PART:-} in
	1) large=${large%% *} ;;
	2 | 3) large=${large##* } ;;
	esac
	for module in $large; do
		step "large modules" -C "$module" go vet ./...
		step "large modules" -C "$module" go test -shuffle=on ./...
	done
	# For all systems in one part of three: that takes minutes more.
	all=
	case ${PART:-3} in
	3) all=-all ;;
	esac
	step "release" -C packaging go test -count=1 -timeout=40m . -release $all
	if [ -n "${GOVULNDB:-}" ] || curl --silent --fail --max-time 10 --output /dev/null "$vulndb/index/db.json"; then
		do_vuln
	else
		echo "govulncheck did not run: $vulndb does not answer, and GOVULNDB names no copy of it"
	fi
	do_fuzz
}

# Every fuzz test, each for FUZZTIME; with PART a third of them, since each is compiled anew.
do_fuzz() {
	n=0
	for module in . $(modules); do
		for package in $(cd "$module" && go list ./...); do
			for name in $(cd "$module" && go test -list='^Fuzz' "$package" | grep '^Fuzz'); do
				n=$((n + 1))
				[ -z "${PART:-}" ] || [ $((n % 3 + 1)) -eq "$PART" ] || continue
				step "fuzzing, ${FUZZTIME:=1m} each" -C "$module" go test -run='^$' -fuzz="^$name\$" -fuzztime="$FUZZTIME" "$package"
			done
		done
	done
}

for tier in "${@:-test}"; do
	case $tier in
	check | release | quick | test | beside | contrib | prove | fuzz | api | vuln) ;;
	*)
		echo "usage: sh test.sh [check|quick|test|beside|contrib|prove|api|vuln]..." >&2
		exit 2
		;;
	esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/" ./internal/repotest/runtests
export RUNTESTS_RESULTS="$work/results"
for tier in "${@:-test}"; do
	"do_$tier"
done
others=
for tier in test beside contrib prove; do
	case " ${*:-test} " in
	*" $tier "*) ;;
	*) others="$others $tier" ;;
	esac
done
"$work/runtests" report $others
