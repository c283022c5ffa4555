#!/bin/sh
# Runs beside a clean root, as root: installs, upgrades, verifies and removes the package with Debian's rpm.
# The root is Debian's, so rpm knows none of its packages: --nodeps.
set -eu
root=$1 old=$2 new=$3
say() { echo "== $*"; }
fail() {
	echo "FAIL: $*" >&2
	exit 1
}

say install
rm "$root/usr/bin/systemd-tmpfiles" # as in a container
rpm --root "$root" --initdb
rpm --root "$root" -i --nodeps "$old"
rpm --root "$root" -V --nodeps holdfast
[ "$(chroot "$root" stat -c '%U %G %a' /run/holdfast)" = "holdfast holdfast 750" ] || fail "/run/holdfast"
chroot "$root" holdfast run job -- echo held | grep -qx held || fail "no lock"
echo '# changed' >>"$root/etc/holdfast/config.yaml"

say upgrade
before=$(chroot "$root" holdfast version -o name)
rpm --root "$root" -U --nodeps "$new"
after=$(chroot "$root" holdfast version -o name)
[ "$before" != "$after" ] || fail "both packages have version $before"
[ "$(tail -n 1 "$root/etc/holdfast/config.yaml")" = '# changed' ] || fail "the upgrade replaced the settings"
rpm --root "$root" -q --changelog --info holdfast

say remove
rpm --root "$root" -e holdfast
[ ! -e "$root/usr/bin/holdfast" ] || fail "the program is still there"
chroot "$root" getent passwd holdfast >/dev/null || fail "the user is gone"
say ok
