//go:build unix

package interop

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/layout"
	"holdfast/zk"
)

// The numbers of a directory are an int32, and continue below zero after the largest. There
// Curator and kazoo, which order them as strings, admit everybody (kazoo 730), and go-zookeeper
// finds nobody to wait for and fails. WriteLock and holdfast queue. Each library does alone
// what it does with us.
func TestQueueAmongNegativeNumbers(t *testing.T) {
	libraries := []struct {
		name, want string // its behaviour as the second to come: waits, beside or fails
		of         func(s *stage, dir string) party
		layout     holdfast.Layout
	}{
		{"Curator", "beside", func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) }, layout.Curator},
		{"kazoo", "beside", func(s *stage, dir string) party { return s.told(s.python, "lock", dir) }, layout.Kazoo},
		{"go-zookeeper", "fails", func(s *stage, dir string) party { return s.rivals(dir) }, layout.GoZookeeper},
		{"WriteLock", "waits", func(s *stage, dir string) party { return s.told(s.java, "writelock", dir) }, layout.WriteLock},
	}
	// 11 and 10 characters: kazoo does not recognize the latter as numbers.
	starts := []string{"-2147483648", "-5"}
	counted := make(map[string]string)
	for i := range libraries {
		for _, start := range starts {
			for _, who := range []string{"alone", "behind-us", "ahead-of-us", "without"} {
				counted[fmt.Sprintf("/%d%s-%s", i, start, who)] = start
			}
		}
	}
	s := stageOn(t, startCounted(t, counted).Addrs()[0])
	for i, lib := range libraries {
		for _, start := range starts {
			dir := func(who string) string { return fmt.Sprintf("/%d%s-%s", i, start, who) }
			our := func(s *stage, dir string) party {
				return s.our(holdfast.NewMutex(dialURL(s.t, "zk://"+s.addr), dir, holdfast.WithLayout(lib.layout)))
			}
			for who, two := range map[string][2]func(*stage, string) party{
				"alone": {lib.of, lib.of}, "behind-us": {our, lib.of}, "ahead-of-us": {lib.of, our}, "without": {our, our},
			} {
				want := lib.want
				if who == "ahead-of-us" || who == "without" {
					want = "waits"
				}
				fine := t.Run(fmt.Sprintf("%s %s, from %s, %s", lib.name, who, start, want), func(t *testing.T) {
					s := s.in(t)
					meet(s, dir(who), two[0](s, dir(who)), two[1](s, dir(who)), want)
				})
				if !fine {
					return
				}
			}
		}
	}
}

// ZooKeeper 3.8.0 never gets there by itself. Its counter stops at the largest number, which
// all later clients get (DataTree.createNode takes a smaller one for an old replay). No queue
// works in such a directory. Two go-zookeeper clients, for example, hold the lock at once.
func TestServersCounterStopsAtTheLargestNumber(t *testing.T) {
	s := stageOn(t, startCounted(t, map[string]string{"/end": "2147483647"}).Addrs()[0])
	var last string
	for range 3 {
		name, _, err := s.admin.Create(s.ctx, fmt.Sprintf("/end/%d-", len(s.children("/end", 0))), nil, zk.EphemeralSequential)
		must(t, err)
		last = path.Base(name)
		if !strings.HasSuffix(last, "-2147483647") {
			t.Errorf("the number is %s; want the largest, again", last)
		}
		must(t, s.admin.Delete(s.ctx, name, zk.AnyVersion))
	}
	meet(s, "/end", s.rivals("/end"), s.rivals("/end"), "beside")

	// Ours neither acquires beside nor waits for ever: it reports the error.
	first, err := holdfast.NewMutex(s.admin, "/end").Lock(s.ctx)
	must(t, err)
	for _, lock := range []func(context.Context) (*holdfast.Hold, error){
		holdfast.NewMutex(s.admin, "/end").Lock, holdfast.NewMutex(s.admin, "/end").TryLock,
	} {
		if _, err := lock(s.ctx); err == nil || !strings.Contains(err.Error(), "the same number") {
			t.Errorf("beside a holder with the same number: %v", err)
		}
	}
	must(t, first.Unlock())
}

// startCounted returns a ZooKeeper whose directories have had this many children.
func startCounted(t *testing.T, counters map[string]string) *peers.ZooKeeper {
	t.Helper()
	classes, dir := curatorClasses(t), t.TempDir()
	z := startWatched(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
	defer cancel()
	admin := dialURL(t, z.URL())
	var args []string
	for p, number := range counters {
		_, _, err := admin.Create(ctx, p, []byte{}, zk.Persistent)
		must(t, err)
		args = append(args, p, number)
	}
	must(t, admin.Close())
	must(t, z.Kill(0))
	data, err := filepath.Glob(filepath.Join(dir, "*", "0", "data")) // one directory per attempt to start it
	must(t, err)
	slices.Sort(data)
	out, err := peers.Curator(ctx, classes, "SetCounter", append([]string{data[len(data)-1]}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("SetCounter: %v\n%s", err, out)
	}
	must(t, z.Restart(ctx, 0))
	return z
}
