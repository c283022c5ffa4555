package zkserver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
)

// facts are the existing nodes, by path, and sessions, as "session 0x…". The value says when a
// fact ends: "lasts", "other" for a session of another machine, or "local" for this machine's.
type facts map[string]string

// lasting returns the facts that outlive a restart of the machine.
func (f facts) lasting() facts {
	left := maps.Clone(f)
	maps.DeleteFunc(left, func(_, ends string) bool { return strings.HasPrefix(ends, "local") })
	return left
}

// ended returns the facts after the end of a session.
func (f facts) ended(id int64) facts {
	left := maps.Clone(f)
	maps.DeleteFunc(left, func(_, ends string) bool { return strings.HasSuffix(ends, sessionName(id)) })
	return left
}

func (f facts) with(key, ends string) facts {
	more := maps.Clone(f)
	more[key] = ends
	return more
}

func (f facts) without(key string) facts {
	less := maps.Clone(f)
	delete(less, key)
	return less
}

func sessionName(id int64) string { return fmt.Sprintf("session 0x%x", id) }

// endsWith returns the value of a session's facts.
func endsWith(sess *session) string {
	name := sessionName(sess.id)
	if sess.group != nil {
		name = fmt.Sprintf("%v, of %v, %s", sess.timeout, sess.group.IDs, name)
	}
	if sess.local {
		return "local " + name
	}
	return "other " + name
}

// factsOf reads the facts from a server. It is called in the owner's goroutine.
func factsOf(s *Server) facts {
	f := make(facts)
	for _, sess := range s.owner.sessions {
		f[sessionName(sess.id)] = endsWith(sess)
	}
	children, _, _ := s.owner.tree.Children("/")
	for _, name := range children {
		stat, _ := s.owner.tree.Exists("/" + name)
		switch sess := s.owner.sessions[stat.EphemeralOwner]; {
		case name == "zookeeper":
		case stat.EphemeralOwner == 0:
			f["/"+name] = "lasts"
		case sess == nil:
			f["/"+name] = "nobody"
		default:
			f["/"+name] = endsWith(sess)
		}
	}
	return f
}

// A moment is what a client knows after a number of changes of the disk.
type moment struct {
	now   int
	zxid  int64
	facts facts
}

// A machine is one disk between two starts of the kernel. Servers run on it one after the other.
// Each is stopped or killed, some of them during their start.
type machine struct {
	fs      *crashfs.FS
	rng     *rand.Rand
	moments []moment // in order
	pending facts    // after a write without an answer; nil if there is none
	nodes   int      // created so far
	owners  *owners  // nil if no session belongs to processes
}

// A crashedDisk is the disk after a crash. It has one of two states, since a write was under way.
type crashedDisk struct {
	files map[string][]byte
	boot  store.BootID
	zxid  int64 // the last zxid that was seen
	may   []facts

	owners *owners
}

// check opens the disk as the next server does, and crashes again during that start, up to twice.
func (d crashedDisk) check(rng *rand.Rand, count *crashCount) error {
	for depth := 0; ; depth++ {
		fs := crashfs.New(d.files)
		fs.BootID = d.boot
		m := &machine{fs: fs, rng: rng, owners: d.owners}
		s, found, err := m.start(Config{OneMachine: rng.IntN(4) > 0}, nil)
		if err != nil {
			return err
		}
		var zxid int64
		m.do(s, func() { zxid = s.owner.zxid })
		s.Close()
		count.images++
		if !slices.ContainsFunc(d.may, func(f facts) bool { return maps.Equal(d.owners.settled(f), found) }) {
			return fmt.Errorf("%d crashes during a start: found %v; want one of %v\n%s", depth, found, d.may, keepImage(d.files))
		}
		if zxid < d.zxid {
			return fmt.Errorf("%d crashes during a start: zxids continue at 0x%x; 0x%x had been seen\n%s", depth, zxid, d.zxid, keepImage(d.files))
		}
		if depth == 2 || rng.IntN(3) > 0 {
			return nil
		}
		count.again++
		cut := rng.IntN(fs.Now() + 1)
		if rng.IntN(2) == 0 {
			d.files = fs.Killed(cut)
		} else {
			d.files = fs.Image(cut, rng)
			d.restart()
		}
	}
}

// restart gives the machine another boot id, unless it has none. The machine's sessions end.
func (d *crashedDisk) restart() {
	if d.boot == (store.BootID{}) {
		return
	}
	d.boot[0]++
	d.boot[1] = 1 // never all zeros
	for i, f := range d.may {
		d.may[i] = f.lasting()
	}
}

// start starts a server and returns the facts it finds, once they are durable. It returns an error
// if the server was killed during its start. If kill is not nil, the process is killed at that
// change of the disk.
func (m *machine) start(cfg Config, kill *int) (*Server, facts, error) {
	var mu sync.Mutex
	changes := 0
	m.fs.Fail = func(c crashfs.Call) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if c.Changes() {
			changes++
		}
		if kill != nil && changes >= *kill {
			return 0, crashfs.ErrKilled
		}
		return 0, nil
	}
	st := store.OpenOn(m.fs, small)
	cfg.Logger = new(complaints).logger()
	cfg.TickTime = 2 * time.Millisecond // so that the server checks its clock between the writes, as it does under load
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	s, err := start(cfg, login.Users{}, st)
	if err != nil {
		st.Close()
		return nil, nil, err
	}
	var found facts
	for began := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		if !m.do(s, func() { found = factsOf(s) }) {
			s.Close()
			return nil, nil, s.Err()
		}
		if maps.Equal(m.owners.settled(found), found) {
			return s, found, nil
		}
		if time.Since(began) > 10*time.Second {
			s.Close()
			return nil, nil, fmt.Errorf("a session of dead processes does not end: %v", found)
		}
	}
}

// do runs f in the owner's goroutine, and waits for the answer. It returns false if the server
// stops first.
func (m *machine) do(s *Server, f func()) bool {
	released := make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() {
		f()
		s.owner.batch.released = append(s.owner.batch.released, func() { close(released) })
	}})
	select {
	case <-released:
		return true
	case <-s.done:
		return false
	}
}

// know records the facts that a client knows by now.
func (m *machine) know(zxid int64, f facts) {
	m.moments = append(m.moments, moment{m.fs.Now(), zxid, f})
	m.pending = nil
}

// life runs a server until it is killed or stopped. It returns an error if the server does not
// find the facts that it must find.
func (m *machine) life(cfg Config, writes int) error {
	var kill *int
	if m.rng.IntN(2) == 0 {
		at := 1 + m.rng.IntN(4*writes)
		if m.rng.IntN(3) == 0 {
			at = 1 + m.rng.IntN(12) // during the start
		}
		kill = &at
	}
	defer func() { m.fs.Fail = nil }()
	s, found, err := m.start(cfg, kill)
	if err != nil {
		if kill == nil {
			return err
		}
		return nil // killed
	}
	last := m.moments[len(m.moments)-1]
	if !maps.Equal(found, m.owners.settled(last.facts)) && (m.pending == nil || !maps.Equal(found, m.owners.settled(m.pending))) {
		s.Close()
		return fmt.Errorf("found %v; want %v or %v", found, last.facts, m.pending)
	}
	m.know(last.zxid, found)
	for range writes {
		if !m.write(s) {
			break
		}
		runtime.Gosched() // on one processor, the merge of a snapshot would not run otherwise
	}
	if m.rng.IntN(2) == 0 {
		s.Close()
		return nil
	}
	s.queue.push(&request{kind: kindStop})
	<-s.Done()
	return nil
}

// write does one write and records it when it is answered. It returns false if the server was killed.
func (m *machine) write(s *Server) bool {
	was := m.moments[len(m.moments)-1].facts
	var zxid int64
	from, owner := m.fs.Now(), false
	answered := m.do(s, func() {
		o := &s.owner
		var ids []int64
		for id := range o.sessions {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		paths := slices.DeleteFunc(slices.Sorted(maps.Keys(was)), func(key string) bool { return key[0] != '/' })
		create := func(id int64, flags int32, ends string) {
			m.nodes++
			op := &zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprint("/", m.nodes), ACL: openACL, Flags: flags,
				Data: make([]byte, m.rng.IntN(600))}
			if _, _, code := o.tree.Create(s.nextTxn(id), op); code != zkproto.CodeOK {
				panic(code)
			}
			m.pending = was.with(op.Path, ends)
		}
		switch k := m.rng.IntN(20); {
		case m.owners != nil && k < 12:
			m.pending, owner = m.owners.write(s, m.rng, was, ids), true
		case k < 3 || len(ids) == 0:
			sess := s.newSession(time.Hour, nil)
			m.pending = was.with(sessionName(sess.id), endsWith(sess))
		case k < 5:
			sess := o.sessions[ids[m.rng.IntN(len(ids))]]
			for _, id := range ids {
				if other := o.sessions[id]; !other.local { // few are left
					sess = other
				}
			}
			m.pending = was.ended(sess.id)
			s.endSession(sess, func() {})
		case k < 8 && len(paths) > 0:
			path := paths[m.rng.IntN(len(paths))]
			if code := o.tree.Delete(s.nextTxn(0), path, -1); code != zkproto.CodeOK {
				panic(code)
			}
			m.pending = was.without(path)
		case k < 11:
			create(0, zkproto.FlagPersistent, "lasts")
		default:
			sess := o.sessions[ids[m.rng.IntN(len(ids))]]
			create(sess.id, zkproto.FlagEphemeral, endsWith(sess))
		}
		s.notify(nil)
		zxid = o.zxid
	})
	if answered {
		m.know(zxid, m.pending)
		if owner {
			m.owners.writes = append(m.owners.writes, [2]int{from, m.fs.Now()})
		}
	}
	return answered
}

// crash returns the disk after the process is killed, or power fails, at some moment.
func (m *machine) crash() crashedDisk {
	cut := m.rng.IntN(m.fs.Now() + 1)
	if syncs := m.fs.Syncs(); m.rng.IntN(2) == 0 && len(syncs) > 0 {
		cut = syncs[m.rng.IntN(len(syncs))] + m.rng.IntN(2) // right before or after a sync returns
	}
	return m.crashAt(cut, m.rng.IntN(3) == 0)
}

// crashAt returns the disk after so many changes. killed is whether the process is killed there; otherwise power fails.
func (m *machine) crashAt(cut int, killed bool) crashedDisk {
	d := crashedDisk{boot: m.fs.BootID, owners: m.owners}
	at := 0
	for i, k := range m.moments {
		if k.now <= cut {
			at = i
		}
	}
	d.zxid, d.may = m.moments[at].zxid, []facts{m.moments[at].facts}
	if at+1 < len(m.moments) {
		d.may = append(d.may, m.moments[at+1].facts)
	} else if m.pending != nil {
		d.may = append(d.may, m.pending)
	}
	if killed {
		d.files = m.fs.Killed(cut)
	} else {
		d.files = m.fs.Image(cut, m.rng)
		d.restart()
	}
	return d
}

// With OneMachine, processes are killed and power fails at any moment, in any order: while the
// store is made, written to, merged into a snapshot, or opened. Opening it ends the sessions of
// an earlier boot. A kill loses nothing that was answered. A power failure ends the machine's
// sessions and nothing else. Sessions of other machines live on, or have ended for good. No
// zxid is reused.
//
// Some servers of a run have clients on other machines. Some machines have no boot id, and some
// file systems reserve no space.
func TestOneMachineCrashImages(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 5))
	var count crashCount
	began := time.Now()
	disks, snapshots := 0, 0
	for count.images < *images {
		d := crashedDisk{boot: store.BootID{1}, may: []facts{{}}}
		if rng.IntN(8) == 0 {
			d.boot = store.BootID{}
		}
		count.runs++
		nodes := 0
		for range 4 { // power failures
			m := &machine{fs: crashfs.New(d.files), rng: rng, moments: []moment{{0, d.zxid, d.may[0]}}, nodes: nodes}
			m.fs.BootID, m.fs.NoRoom = d.boot, rng.IntN(4) == 0
			if len(d.may) > 1 {
				m.pending = d.may[1]
			}
			for range 1 + rng.IntN(4) {
				if err := m.life(Config{OneMachine: rng.IntN(4) > 0}, 5+rng.IntN(120)); err != nil {
					t.Fatalf("run %d: %v", count.runs, err)
				}
			}
			nodes = m.nodes
			disks++
			count.writes += len(m.moments)
			if names, _ := m.fs.List(); slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".snapshot") }) {
				snapshots++
			}
			for range 25 {
				if err := m.crash().check(rng, &count); err != nil {
					t.Fatalf("run %d: %v", count.runs, err)
				}
			}
			for d = m.crash(); d.boot != (store.BootID{}) && d.boot == m.fs.BootID; d = m.crash() {
			}
		}
	}
	if count.runs > 2 && (snapshots == 0 || count.again == 0) {
		t.Errorf("%+v, %d disks, %d with snapshots: some case was not tried", count, disks, snapshots)
	}
	t.Logf("%d crash images, %d of them of a recovery, of %d disks (%d with snapshots) with %d writes; %v",
		count.images, count.again, disks, snapshots, count.writes, time.Since(began).Round(time.Millisecond))
}
