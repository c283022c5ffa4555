package zkserver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/internal/proc"
	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// owners are the processes that the sessions of a machine belong to, see machine.
type owners struct {
	groups []*proc.Group // nil: the timeout alone ends the session
	dead   []string      // how the sessions of dead processes look in facts
	writes [][2]int      // the changes of the disk before and after each write of an owner
}

// newOwners starts processes, ends some, and makes groups of them: of a living process and of a dead one, and those of
// commands whose supervisor or watchdog is dead (zk.Client.Share).
func newOwners(t *testing.T) *owners {
	t.Helper()
	self, err := proc.Self()
	if err != nil {
		t.Skip(err)
	}
	var pids []int
	var ends []func()
	for range 4 {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		end := func() { in.Close(); cmd.Wait() }
		t.Cleanup(end)
		pids, ends = append(pids, cmd.Process.Pid), append(ends, end)
	}
	of := func(some ...int) *proc.Group {
		g := self
		for _, i := range some {
			if g, err = g.With(pids[i]); err != nil {
				t.Fatal(err)
			}
		}
		g.IDs = g.IDs[1:]
		return &g
	}
	// 0 and 1 live, 2 and 3 are dead.
	o := &owners{groups: []*proc.Group{nil, of(0), of(0, 1), of(2, 1), of(1, 3), of(2), of(2, 3)}}
	ends[2]()
	ends[3]()
	for _, g := range o.groups[5:] {
		o.dead = append(o.dead, fmt.Sprintf(", of %v, ", g.IDs))
	}
	return o
}

// settled returns the facts when the sessions of the dead have ended.
func (o *owners) settled(f facts) facts {
	if o == nil {
		return f
	}
	left := maps.Clone(f)
	maps.DeleteFunc(left, func(_, ends string) bool {
		return slices.ContainsFunc(o.dead, func(of string) bool { return strings.Contains(ends, of) })
	})
	return left
}

// write makes a session of some processes, or lets one belong to others. It returns the facts afterwards.
func (o *owners) write(s *Server, rng *rand.Rand, was facts, ids []int64) facts {
	g := o.groups[rng.IntN(len(o.groups))]
	timeout := time.Duration(1+rng.IntN(2)) * time.Hour
	if len(ids) == 0 || rng.IntN(3) == 0 {
		sess := s.newSession(timeout, g)
		now := was.with(sessionName(sess.id), endsWith(sess))
		path := "/of-" + sessionName(sess.id)[len("session "):]
		if rng.IntN(2) == 0 { // a lock, in the same batch
			op := &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: openACL, Flags: zkproto.FlagEphemeral}
			if _, _, code := s.owner.tree.Create(s.nextTxn(sess.id), op); code != zkproto.CodeOK {
				panic(code)
			}
			now[path] = endsWith(sess)
		}
		return now
	}
	sess := s.owner.sessions[ids[rng.IntN(len(ids))]]
	want := session{id: sess.id, timeout: sess.timeout, local: sess.local, group: g}
	if rng.IntN(2) == 0 { // another process attaches the session
		want.timeout = timeout
		if s.resume(&zkproto.ConnectRequest{SessionID: sess.id, Passwd: s.password(sess.id)}, timeout, g) != sess {
			panic("the session is not there")
		}
	} else {
		s.rebind(sess, g)
	}
	now := maps.Clone(was)
	for key, ends := range was {
		if strings.HasSuffix(ends, sessionName(sess.id)) {
			now[key] = endsWith(&want)
		}
	}
	return now
}

// The process is killed, or power fails, at every point at which a server writes which processes a session belongs to:
// when it is made, attached by another process, or shared. After the next start, the sessions of the dead end at once.
// Those with a living process, or with none, are there, with their nodes and their timeouts. The processes are those of
// the last answered write, or of the write under way. So no session ends early, and none is forgotten.
func TestOwnersOutliveCrashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 41))
	owners := newOwners(t)
	var count crashCount
	kills, failures, written := 0, 0, 0
	began := time.Now()
	for count.images < *images {
		d := crashedDisk{boot: store.BootID{1}, may: []facts{{}}, owners: owners}
		count.runs++
		nodes := 0
		for range 3 { // crashes
			owners.writes = nil
			m := &machine{fs: crashfs.New(d.files), rng: rng, moments: []moment{{0, d.zxid, d.may[0]}}, nodes: nodes, owners: owners}
			m.fs.BootID, m.fs.NoRoom = d.boot, rng.IntN(4) == 0
			if len(d.may) > 1 {
				m.pending = d.may[1]
			}
			for range 1 + rng.IntN(3) {
				if err := m.life(Config{OneMachine: rng.IntN(4) > 0}, 5+rng.IntN(30)); err != nil {
					t.Fatalf("run %d: %v", count.runs, err)
				}
			}
			nodes = m.nodes
			count.writes += len(m.moments)
			written += len(owners.writes)
			for _, w := range owners.writes {
				for cut := w[0]; cut <= w[1]; cut++ {
					for _, killed := range []bool{true, false} {
						if killed {
							kills++
						} else {
							failures++
						}
						if err := m.crashAt(cut, killed).check(rng, &count); err != nil {
							t.Fatalf("run %d, change %d (killed: %v): %v", count.runs, cut, killed, err)
						}
					}
				}
			}
			d = m.crash()
		}
	}
	t.Logf("%d crash images, %d of kills, %d of power failures, %d of a recovery, around %d writes of an owner among %d writes; %v",
		count.images, kills, failures, count.again, written, count.writes, time.Since(began).Round(time.Millisecond))
}
