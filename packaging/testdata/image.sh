#!/bin/sh
# Loads the image with podman, as root, and takes a lock from its server with the program of the release.
set -eu
archive=$1 holdfast=$2 dir=$3
podman="podman --runtime=runc --root $dir/root --runroot $dir/run --cgroup-manager=cgroupfs --events-backend=none"
name=holdfast-test-$$
# The limits of podman can be above those of this machine.
limits="--ulimit=nofile=1024:1024 --ulimit=nproc=4096:4096"
trap '$podman rm -f $name >/dev/null 2>&1 || true' EXIT

image=$($podman load -q -i "$archive" | sed -n 's/^Loaded image[^:]*: //p')
echo "loaded $image"
$podman run --rm --network=none $limits "$image" version
mkdir -p "$dir/data"
chown 65532:65532 "$dir/data"
$podman run -d --name $name --network=host $limits -v "$dir/data:/var/lib/holdfast" \
	"$image" serve --data-dir /var/lib/holdfast/data --listen 127.0.0.1:0 >/dev/null
n=0
until $podman logs $name 2>/dev/null | grep -qx ready; do
	n=$((n + 1))
	[ $n -lt 200 ] || { $podman logs $name; exit 1; }
	sleep 0.1
done
address=$($podman logs $name 2>/dev/null | sed -n 's/^listening tcp //p')
"$holdfast" run --server "zk://$address" job -- echo held
[ "$($podman exec $name /usr/bin/holdfast ls --server "zk://$address" -o name)" = job ]
$podman stop -t 10 $name >/dev/null
[ "$($podman inspect -f '{{.State.ExitCode}}' $name)" = 0 ]
echo ok
