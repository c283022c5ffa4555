#!/bin/sh
# Writes a screen of holdfast top to a file: sh top.sh FILE. It needs Go and tmux, and takes locks in a store of its own.
set -eu
out=$1
dir=$(mktemp -d)
jobs=
finish() {
	tmux -S "$dir/tmux" kill-server 2>/dev/null || true
	for job in $jobs; do
		kill "$job" 2>/dev/null || true
	done
	wait
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM
(cd ../.. && go build -o "$dir/holdfast" ./cmd/holdfast)
export HOLDFAST_SERVER="file://$dir/store" HOME="$dir"
job() {
	owner=$1 why=$2 lock=$3
	shift 3
	"$dir/holdfast" run --quiet --who "$owner" --why "$why" "$@" "$lock" -- sleep 60 &
	jobs="$jobs $!"
	n=0
	until "$dir/holdfast" status "$lock" 2>/dev/null | grep -q "$owner"; do
		n=$((n + 1))
		[ $n -lt 200 ] || { echo "top.sh: $owner is not in the queue of $lock" >&2; exit 1; }
		sleep 0.1
	done
}
job deploy@web1 'schema 42 of orders' db/migrate
job deploy@web2 'schema 43 of orders' db/migrate
job ann@laptop 'looks at the plan' db/migrate
job cron@batch1 'nightly export' cron/nightly
job cron@batch2 'nightly export' cron/nightly
job report@web1 'reads the index' files/index --shared
job report@web2 'reads the index' files/index --shared
job index@batch1 'writes the index' files/index
tmux -S "$dir/tmux" -f /dev/null new-session -d -x 100 -y 16 "$dir/holdfast top"
n=0
until tmux -S "$dir/tmux" capture-pane -p >"$dir/screen" && grep -q files/index "$dir/screen" && grep -q deploy@web2 "$dir/screen" || [ $n -ge 100 ]; do
	n=$((n + 1))
	sleep 0.1
done
[ $n -lt 100 ] || { cat "$dir/screen" >&2; exit 1; }
cp "$dir/screen" "$out"
