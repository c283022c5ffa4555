package doctor

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/supervise"
)

func TestDoctorKnowsWhatTheWatchdogCanDo(t *testing.T) {
	none := errors.New("none")
	for _, tt := range []struct {
		means supervise.Means
		uid   int
		want  []string
	}{
		{supervise.Means{Cgroup: "/sys/fs/cgroup/me"}, 1000, []string{"ok it starts in 2ms; user id 1000; a command gets a cgroup in /sys/fs/cgroup/me, which the kernel can kill as a whole"}},
		{supervise.Means{NoCgroup: none}, 1000, []string{"warning it starts in 2ms; user id 1000; no cgroup (none); descendants that become another user, as by sudo, survive"}},
		{supervise.Means{NoCgroup: none}, 0, []string{"ok it starts in 2ms; user id 0; no cgroup (none); as root it finds and kills every descendant"}},
		{supervise.Means{NoCgroup: none, Confined: true}, 0, []string{"warning it starts in 2ms; user id 0 in a user namespace; no cgroup (none); descendants that become a user outside of it survive"}},
		{supervise.Means{Cgroup: "/c", NoDeathSignal: none, Orphans: 2}, 0, []string{
			"warning the kernel offers no signal at the death of a parent: none",
			"ok it starts in 2ms; user id 0; a command gets a cgroup in /c, which the kernel can kill as a whole",
			"warning 2 jobs of watchdogs that are dead",
		}},
	} {
		var f findings
		judgeMeans(&f, tt.means, tt.uid, 2*time.Millisecond)
		if got := states(f); !slices.Equal(got, tt.want) {
			t.Errorf("got\n%q; want\n%q", got, tt.want)
		}
	}
}

func TestDoctorKnowsFileSystems(t *testing.T) {
	const mounts = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:25 / /run rw,nosuid shared:9 - tmpfs tmpfs rw
31 30 8:2 / /run/my\040disk rw - xfs /dev/sdb rw
32 22 0:26 / /srv rw - nfs server:/x rw
33 22 8:3 / /srv rw - btrfs /dev/sdc rw
`
	for dir, want := range map[string]string{"/home/me": "ext4", "/": "ext4", "/run": "tmpfs", "/runner": "ext4", "/run/my disk/x": "xfs", "/srv/locks": "btrfs"} {
		if got := mountedAt(strings.NewReader(mounts), dir); got != want {
			t.Errorf("%s: %s; want %s", dir, got, want)
		}
	}
}

// The timing of syncs leaves nothing in the directory.
func TestDoctorTimesSyncs(t *testing.T) {
	dir := t.TempDir()
	k, err := readDisk(dir)
	if err != nil || k.kind == "" || k.free == 0 {
		t.Errorf("%+v, %v", k, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
