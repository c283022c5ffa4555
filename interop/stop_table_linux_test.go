package interop

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/interop/peers"
)

var (
	stopsPerRow = flag.Int("stops", 0, "how many holders TestStopTable stops for longer than their timeouts, for each row of its table")
	stopsDoc    = flag.String("stops-doc", "", "TestStopTable writes its table into this file, docs/explanation/comparison.md")
)

// stopWatched is how long the former holder is watched after it has been continued.
const stopWatched = 5 * time.Second

// A stopRow is a row of the table: holders that are stopped with all their processes until the next one has begun, and
// continued.
type stopRow struct {
	server, holder string
	start          func(i int, work string) *exec.Cmd
	waits          bool          // the program says that it waits
	patience       time.Duration // nobody else gets the lock, for so long

	beside []time.Duration // how long the former holder worked on beside the next one; stopWatched: to the end
	never  bool            // nobody else has got the lock
}

// TestStopTable stops holders for longer than their timeouts and continues them, with our command and a Go program, and
// with other locks. It measures how long two work at once.
func TestStopTable(t *testing.T) {
	if *stopsPerRow == 0 {
		t.Skip("takes some minutes, and measures: -stops 3")
	}
	k := &killTable{t: t, dir: t.TempDir(), began: time.Now(), load: strings.Fields(fileText("/proc/loadavg") + " unknown")[0]}
	must(t, os.Chmod(k.dir, 0o755))
	k.build()
	k.alone = k.apache(1)
	rows := k.stopRows()
	t.Run("rows", func(t *testing.T) {
		for _, r := range rows {
			t.Run(r.server+" "+r.holder, func(t *testing.T) {
				t.Parallel()
				for i := range *stopsPerRow {
					if r.trial(t, k, i); r.never {
						break
					}
				}
				measured(t, "%s", strings.TrimSpace(r.cells()))
			})
		}
	})
	if *stopsDoc != "" && !t.Failed() {
		var text strings.Builder
		fmt.Fprintf(&text, "Measured %s at commit %s. Load average at the start: %s.\n\n| Server | Holder | Stopped | Two worked at once | For how long |\n|---|---|---:|---:|---|\n", k.began.Format(time.DateOnly), commit(t.Context()), k.load)
		for _, r := range rows {
			text.WriteString(r.cells())
		}
		must(t, replaceMeasured(*stopsDoc, "stops", text.String()))
	}
}

func (k *killTable) stopRows() []*stopRow {
	ctx, cancel := context.WithTimeout(k.t.Context(), peerStart)
	defer cancel()
	etcd, err := peers.StartEtcd(ctx, k.t.TempDir())
	etcd = closing(k.t, etcd, err)
	redis, err := peers.StartRedis(ctx, k.t.TempDir())
	redis = closing(k.t, redis, err)
	socket := filepath.Join(k.dir, "socket")
	serve, err := peers.StartHoldfast(ctx, k.bin, filepath.Join(k.dir, "serve"), "--unix", socket)
	closing(k.t, serve, err)
	need(k.t, peers.NeedKazoo())
	need(k.t, peers.NeedCommand("etcdctl", "etcd-client"))
	addr, file := k.alone.Addrs()[0], filepath.Join(k.dir, "flock")
	job := func(name string, i int, work string) []string {
		r := &killRow{server: name}
		return k.job(r, i, []string{k.witness, "work", work})
	}
	ours := func(name, url string) *stopRow {
		return &stopRow{server: name, holder: "holdfast run", start: func(i int, work string) *exec.Cmd {
			cmd := exec.Command(k.bin, append([]string{"run", "stops", "--"}, job("ours "+name, i, work)...)...)
			cmd.Env = withoutSettings([]string{"HOLDFAST_SERVER=" + url})
			return cmd
		}}
	}
	program := func(server, holder, library, addr string) *stopRow {
		return &stopRow{server: server, holder: holder, waits: true, start: func(_ int, work string) *exec.Cmd {
			return k.program(library, addr, "stops-"+library, work)
		}}
	}
	return []*stopRow{
		ours("unix://", "unix://"+socket),
		ours("Apache, alone", k.alone.URL()),
		program("Apache, alone", "holdfast, Go program", "ours", k.alone.URL()),
		program("Apache, alone", "go-zookeeper Lock", "go-zookeeper", addr),
		{server: "Apache, alone", holder: "kazoo Lock", waits: true, start: func(_ int, work string) *exec.Cmd {
			return peers.Kazoo(context.Background(), "py/kill_lock.py", addr, "/stops-kazoo", filepath.Join(k.dir, "stops-kazoo"), work)
		}},
		program("redis", "redsync", "redsync", redis.Addr()),
		{server: "etcd", holder: "etcdctl lock", start: func(i int, work string) *exec.Cmd {
			cmd := exec.Command("etcdctl", append([]string{"--endpoints", etcd.URL(), "lock", "--", "stops"}, job("etcd", i, work)...)...)
			cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
			return cmd
		}},
		{server: "a file", holder: "flock", patience: 20 * time.Second, start: func(i int, work string) *exec.Cmd {
			return exec.Command("flock", append([]string{file}, job("flock", i, work)...)...)
		}},
	}
}

// trial stops a holder until the next one has begun, and continues it.
func (r *stopRow) trial(t *testing.T, k *killTable, i int) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*stepTime)
	defer cancel()
	log, err := os.CreateTemp(k.dir, "stderr-")
	must(t, err)
	defer log.Close()
	begin := func(n int) (*killHolder, string) {
		name := strings.NewReplacer(" ", "-", "/", "-", ",", "").Replace(fmt.Sprintf("work-%s-%s-%d-%d", r.server, r.holder, i, n))
		work := filepath.Join(k.dir, name)
		row := &killRow{start: func(int) *exec.Cmd { return r.start(2*i+n, work) }, log: log}
		return row.begin(t, 0), work
	}
	holder, work := begin(0)
	holder.expect(ctx, t, "ready")
	next, _ := begin(1)
	if r.waits {
		next.expect(ctx, t, "waits")
	}
	pause(ctx, time.Second)
	all := familyOf(holder.process.Pid())
	defer func() {
		for _, pid := range append(all, familyOf(next.process.Pid())...) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_, _ = holder.process.Kill(), next.process.Kill()
	}()
	for _, pid := range all {
		must(t, unix.Kill(pid, unix.SIGSTOP))
	}
	patience := 2 * stepTime
	if r.patience > 0 {
		patience = r.patience
	}
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if _, err := next.line(waiting, "ready"); err != nil {
		if r.never = r.patience > 0; r.never {
			return
		}
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	at := bootTime()
	for _, pid := range slices.Backward(all) { // the job before its watchdog
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	pause(ctx, stopWatched)
	b, err := os.ReadFile(work)
	must(t, err)
	last := time.Duration(binary.NativeEndian.Uint64(b))
	r.beside = append(r.beside, min(max(last-at, 0), stopWatched))
}

// cells is the row of the table.
func (r *stopRow) cells() string {
	times, how := 0, "–"
	var longest time.Duration
	for _, d := range r.beside {
		if d > 0 {
			times++
		}
		longest = max(longest, d)
	}
	switch {
	case r.never:
		how = "the lock stays taken"
	case longest >= stopWatched-100*time.Millisecond:
		how = "it works on"
	case times > 0:
		how = fmt.Sprintf("at most %.1f ms", killMillis(longest))
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %s |\n", r.server, r.holder, max(1, len(r.beside)), times, how)
}

// familyOf returns a process and its descendants.
func familyOf(pid int) []int {
	all := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		list, _ := os.ReadFile(name)
		for _, child := range strings.Fields(string(list)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, familyOf(n)...)
			}
		}
	}
	return all
}
