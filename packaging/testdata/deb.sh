#!/bin/sh
# Runs in a clean Debian root, as root: installs the package of the commit before, lets two users share a lock
# through the socket of the group, kills the server and upgrades under their locks, removes and purges. /packages has
# old.deb and new.deb, and systemd is process 1.
set -eu

say() { echo "== $*"; }
fail() {
	echo "FAIL: $*" >&2
	cat /tmp/*.log >&2 || true
	journalctl --no-pager -u holdfast -u holdfast-ui >&2
	exit 1
}
is() { [ "$2" = "$3" ] || fail "$1: $2; want $3"; }
code() {
	set +e
	"$@" >/tmp/code.log 2>&1
	echo $?
	set -e
}
# Waits for what must come, for 20 seconds.
until_true() {
	n=0
	until "$@"; do
		n=$((n + 1))
		[ $n -lt 200 ] || fail "never: $*"
		sleep 0.1
	done
}
as() {
	user=$1
	shift
	runuser -u "$user" -- env -i HOME="/home/$user" PATH="$PATH" "$@"
}

pid_of() { systemctl show --property=MainPID --value "$1"; }
# The server is another process than before, and is ready.
is_new() { [ "$(systemctl is-active holdfast)" = active ] && [ "$(pid_of holdfast)" != "$1" ]; }
ann_holds() {
	is "the holder's token" "$(as bob holdfast status -o json job | sed -n 's/^ *"token": "\(.*\)".*/\1/p' | head -n 1)" "$(cat /tmp/ann.has)"
	is "bob tries" "$(code as bob holdfast run --try job -- true)" 75
	[ ! -e /tmp/bob.has ] || fail "bob has the lock of ann"
}

say install
dpkg -i /packages/old.deb
old=$(holdfast version -o name)
is "the directory of the socket" "$(stat -c '%U %G %a' /run/holdfast)" "holdfast holdfast 750"
is "the user's shell" "$(getent passwd holdfast | cut -d: -f7)" /usr/sbin/nologin
for user in ann bob eve; do
	useradd --create-home $user
done
usermod -aG holdfast ann
usermod -aG holdfast bob

say "a user needs no server"
is "a lock of eve" "$(code as eve holdfast run job -- true)" 0

say "two users share a lock"
echo 'server: unix:///run/holdfast/socket' >>/etc/holdfast/config.yaml
systemctl enable --now holdfast
is "the socket" "$(stat -c '%U %G %a' /run/holdfast/socket)" "holdfast holdfast 660"
is "the store" "$(stat -c '%U %G %a' /var/lib/holdfast/data)" "holdfast holdfast 700"
as ann holdfast run job -- sh -c 'echo $HOLDFAST_TOKEN >/tmp/ann.has; until [ -e /tmp/ann.may-end ]; do sleep 0.1; done' >/tmp/ann.log 2>&1 &
ann=$!
until_true test -s /tmp/ann.has
is "bob tries" "$(code as bob holdfast run --try job -- true)" 75
as bob holdfast run job -- sh -c 'echo $HOLDFAST_TOKEN >/tmp/bob.has' >/tmp/bob.log 2>&1 &
bob=$!
until_true sh -c 'runuser -u bob -- holdfast status job | grep -q "bob@"'
is "eve, who is not in the group" "$(code as eve timeout 10 holdfast run job -- true)" 125
grep -q 'permission denied' /tmp/code.log || fail "eve is told $(cat /tmp/code.log)"

say "the server is killed"
server=$(pid_of holdfast)
kill -KILL "$server"
until_true is_new "$server"
ann_holds

say upgrade
server=$(pid_of holdfast)
dpkg -i /packages/new.deb
new=$(holdfast version -o name)
[ "$old" != "$new" ] || fail "both packages have version $old"
is_new "$server" || fail "the upgrade did not restart the server"
is "ann's setting" "$(tail -n 1 /etc/holdfast/config.yaml)" 'server: unix:///run/holdfast/socket'
ann_holds
touch /tmp/ann.may-end
wait $ann || fail "ann: $?"
wait $bob || fail "bob: $?"
[ "$(cat /tmp/bob.has)" -gt "$(cat /tmp/ann.has)" ] || fail "tokens: ann $(cat /tmp/ann.has), bob $(cat /tmp/bob.has)"

say "manual pages and completions"
[ -s /usr/share/bash-completion/completions/holdfast ] || fail "no completion"
[ ! -d /usr/share/man/man1 ] || [ -s /usr/share/man/man1/holdfast-run.1.gz ] || fail "no manual page"

say remove
dpkg -r holdfast
is "the server" "$(systemctl is-active holdfast || true)" inactive
[ ! -e /usr/bin/holdfast ] || fail "the program is still there"
[ -e /etc/holdfast/config.yaml ] || fail "remove removed the settings"
[ -d /var/lib/holdfast/data ] || fail "remove removed the store"
dpkg -P holdfast
[ ! -e /etc/holdfast ] || fail "purge left $(ls /etc/holdfast)"
[ ! -e /var/lib/holdfast ] || fail "purge left the store"
dpkg -i /packages/new.deb
is "a lock after all" "$(code as eve holdfast run job -- true)" 0
say ok
