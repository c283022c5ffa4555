package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"holdfast/interop/peers"
)

var powercuts = flag.Int("powercuts", -1, "how often the power cut test cuts the power; by default 3 times if loop devices can be mounted here")

// A loopDisk is an ext4 file system in a file.
type loopDisk struct {
	image, dir string
	mounted    bool
}

func newLoopDisk(dir string, bytes int64) (*loopDisk, error) {
	d := &loopDisk{image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "mnt")}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(bytes), f.Close(), os.Mkdir(d.dir, 0o700)); err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (d *loopDisk) mount() error {
	err := command("mount", "-o", "loop", d.image, d.dir)
	d.mounted = err == nil
	return err
}

func (d *loopDisk) unmount() error {
	if !d.mounted {
		return nil
	}
	err := command("umount", d.dir)
	d.mounted = err != nil
	return err
}

// cut ends the file system at once, like a power failure: data that are only in memory no longer
// reach the disk, not even the journal.
func (d *loopDisk) cut() error {
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return fmt.Errorf("shut down %s: %w", d.dir, errno)
	}
	return nil
}

// needLoopDisk skips the test where loop disks are impossible. If the test was asked for, and on
// CI, it fails instead.
func needLoopDisk(t *testing.T, asked bool, bytes int64) *loopDisk {
	t.Helper()
	d, err := newLoopDisk(t.TempDir(), bytes)
	if err != nil {
		line := fmt.Sprintf("left out: no ext4 in a file: %v", err)
		summarize(t.Name() + ": " + line)
		if asked || os.Getenv("CI") == "true" {
			t.Fatal(line)
		}
		t.Skip(line)
	}
	t.Cleanup(func() {
		if err := d.unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Power fails during a stream of creates: the disk has everything acknowledged by then. A file
// beside the store is never synced. Its loss shows that the power failure was real.
func TestHoldfastServeKeepsAcknowledgedNodesWhenPowerFails(t *testing.T) {
	cuts := *powercuts
	if cuts < 0 {
		cuts = 3
	}
	disk := needLoopDisk(t, *powercuts > 0, 256<<20)
	h, err := peers.StartHoldfast(t.Context(), holdfastBin(t), filepath.Join(disk.dir, "holdfast"))
	closing(t, h, err)
	unsynced := filepath.Join(disk.dir, "unsynced")
	lost := 0
	crash(t, crashing{
		addr: h.Addr(),
		kill: func() error {
			if err := os.WriteFile(unsynced, make([]byte, 1<<16), 0o600); err != nil {
				return err
			}
			return errors.Join(disk.cut(), h.Kill())
		},
		restart: func(ctx context.Context) error {
			if err := errors.Join(disk.unmount(), disk.mount()); err != nil {
				return err
			}
			if info, err := os.Stat(unsynced); err != nil || info.Size() == 0 {
				lost++
			}
			os.Remove(unsynced)
			return h.Restart(ctx)
		},
	}, cuts)
	if lost == 0 {
		t.Errorf("%d cuts, and the unsynced file was always there: these were no power failures", cuts)
	}
	measured(t, "the file that was not synced was lost in %d of %d cuts", lost, cuts)
}
