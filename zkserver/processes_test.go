package zkserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/proc"
	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
)

// A simKernel is the processes of a simulated machine. It has few process ids, so they are used again soon.
type simKernel struct {
	mu      sync.Mutex
	started uint64
	living  map[proc.ID]chan struct{} // closed when the process ends
}

const simPIDs = 5

// spawn starts a process. It returns false if no process id is free.
func (k *simKernel) spawn(rng *rand.Rand) (proc.ID, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	for _, pid := range rng.Perm(simPIDs) {
		id := proc.ID{PID: int32(pid + 1), Start: k.started}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(k.living)), func(other proc.ID) bool { return other.PID == id.PID }) {
			k.living[id] = make(chan struct{})
			return id, true
		}
	}
	return proc.ID{}, false
}

// respawn ends a process and starts another one with its process id.
func (k *simKernel) respawn(id proc.ID) proc.ID {
	k.kill(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	next := proc.ID{PID: id.PID, Start: k.started}
	k.living[next] = make(chan struct{})
	return next
}

func (k *simKernel) kill(id proc.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.living[id])
	delete(k.living, id)
}

func (k *simKernel) ended(id proc.ID) (ended bool, end <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ch, ok := k.living[id]
	return !ok, ch
}

// wait is proc.Group.Wait.
func (k *simKernel) wait(ctx context.Context, g proc.Group) error {
	for _, id := range g.IDs {
		ended, end := k.ended(id)
		if ended {
			continue
		}
		select {
		case <-end:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// A simConn is the server's end of a connection. peer is the process at the other end, whatever the client says.
type simConn struct {
	net.Conn
	kernel *simKernel
	peer   proc.ID
}

func (c *simConn) Confirm(g proc.Group) error {
	if ended, _ := c.kernel.ended(c.peer); ended || g.IDs[0] != c.peer {
		return errors.New("another process")
	}
	return nil
}

// A simSession is what the simulation knows of a session.
type simSession struct {
	answer *zkproto.ConnectResponse
	client *rawClient // nil without a connection
	peer   proc.ID    // at the other end of the connection
	group  *proc.Group
}

// A simulation is a machine with processes, their sessions, and one host after the other.
type simulation struct {
	t        *testing.T
	rng      *rand.Rand
	kernel   *simKernel
	memory   *store.Memory
	s        *Server
	sessions map[int64]*simSession
	did      map[string]int
	heir     *simSession // of a process whose id is that of the process before it, see step
}

func (m *simulation) host() {
	cfg, err := Config{MaxSessionTimeout: 10 * time.Hour}.withDefaults()
	if err == nil {
		m.s, err = start(cfg, login.Users{}, m.memory)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// named returns what a client says of its processes, and the group that the server must believe.
func (m *simulation) named(peer proc.ID) (said []byte, believed *proc.Group) {
	g := proc.Group{IDs: []proc.ID{peer}}
	if others := m.processes(); m.rng.IntN(2) == 0 { // with a watchdog
		if w := others[m.rng.IntN(len(others))]; w != peer {
			g.IDs = append(g.IDs, w)
		}
	}
	switch m.rng.IntN(6) {
	case 0: // another library, or a client behind a relay that does not know
		m.did["says nothing"]++
		return nil, nil
	case 1: // a client behind a relay, or a liar: the peer is another process
		m.did["says what the kernel does not confirm"]++
		g.IDs[0] = proc.ID{PID: 1 + m.rng.Int32N(simPIDs), Start: 1 + m.rng.Uint64N(m.kernel.started)}
		if g.IDs[0] == peer {
			return nil, nil
		}
		return g.Append(nil), nil
	}
	return g.Append(nil), &g
}

func (m *simulation) processes() []proc.ID {
	return slices.SortedFunc(maps.Keys(m.kernel.living), func(a, b proc.ID) int { return int(a.Start) - int(b.Start) })
}

// attach connects a process to a session, or to a new one if old is nil.
func (m *simulation) attach(peer proc.ID, old *simSession) {
	near, far := net.Pipe()
	m.s.accept(&simConn{far, m.kernel, peer})
	c := newRaw(m.t, near)
	said, believed := m.named(peer)
	req := &zkproto.ConnectRequest{Timeout: 3_600_000, Passwd: make([]byte, 16), HasReadOnly: true, Processes: said}
	if old != nil {
		req.SessionID, req.Passwd = old.answer.SessionID, old.answer.Passwd
	}
	c.sendFrame(req)
	var resp zkproto.ConnectResponse
	resp.Decode(zkproto.NewReader(c.readFrame()))
	if resp.Timeout <= 0 {
		m.t.Fatalf("a session of a living process is gone")
	}
	m.sessions[resp.SessionID] = &simSession{answer: &resp, client: c, peer: peer, group: believed}
}

// disconnect ends the connection of a session.
func (m *simulation) disconnect(sess *simSession) {
	if sess.client != nil {
		sess.client.nc.Close()
		sess.client = nil
	}
}

// step does something at random.
func (m *simulation) step() {
	if m.heir != nil { // the server must not take its process for the one before
		m.disconnect(m.heir)
		m.heir = nil
		return
	}
	ids := slices.Sorted(maps.Keys(m.sessions))
	alive := m.processes()
	what := m.rng.IntN(10)
	if len(alive) == 0 || what == 0 {
		if _, ok := m.kernel.spawn(m.rng); ok {
			return
		}
	}
	if alive = m.processes(); len(alive) == 0 {
		return
	}
	peer := alive[m.rng.IntN(len(alive))]
	if len(ids) == 0 || what == 1 {
		m.attach(peer, nil)
		return
	}
	sess := m.sessions[ids[m.rng.IntN(len(ids))]]
	if ended, _ := m.kernel.ended(sess.peer); what == 2 && sess.client != nil && !ended {
		peer = m.kernel.respawn(sess.peer) // its connection outlives it
		m.did["ids of processes used again"]++
		defer func() { m.heir = m.sessions[sess.answer.SessionID] }()
	}
	switch what {
	case 2, 3: // a process attaches the session: the same, or it has moved
		if sess.client != nil {
			defer sess.client.nc.Close()
		}
		m.did["moves"]++
		m.attach(peer, sess)
	case 4: // Client.Share
		if sess.client != nil {
			said, believed := m.named(sess.peer)
			if ended, _ := m.kernel.ended(sess.peer); ended {
				believed = nil
			}
			if said == nil {
				said = []byte{}
			}
			sess.client.call(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: zkproto.SchemeProcesses, Auth: said})
			sess.group = believed
			m.did["shares"]++
		}
	case 5, 6: // its connection ends
		m.disconnect(sess)
	case 7, 8: // a process is killed; its connections may outlive it, since a child has them
		m.kernel.kill(peer)
		outlives := m.rng.IntN(2) == 0
		for _, sess := range m.sessions {
			if sess.peer == peer && !outlives {
				m.disconnect(sess)
			}
		}
		m.did["dies"]++
	case 9: // the host is killed, and another one takes over
		m.s.Close()
		for _, sess := range m.sessions {
			sess.client = nil
		}
		m.host()
		m.did["hosts"]++
	}
}

// check compares the sessions of the server with those that there must be.
func (m *simulation) check(step int) {
	synctest.Wait()
	for id, sess := range m.sessions {
		dead := sess.group != nil && sess.client == nil
		for _, p := range m.groupOf(sess) {
			if ended, _ := m.kernel.ended(p); !ended {
				dead = false
			}
		}
		if dead {
			m.did["ends"]++
			delete(m.sessions, id)
		}
	}
	var got []int64
	onOwner(m.s, func() { got = slices.Sorted(maps.Keys(m.s.owner.sessions)) })
	if want := slices.Sorted(maps.Keys(m.sessions)); !slices.Equal(got, want) {
		for _, id := range want {
			if !slices.Contains(got, id) {
				m.t.Fatalf("step %d: session 0x%x has ended early; it belongs to %v, and the living are %v", step, id, m.groupOf(m.sessions[id]), m.processes())
			}
		}
		m.t.Fatalf("step %d: sessions %x; want %x: those of dead processes do not end", step, got, want)
	}
}

func (m *simulation) groupOf(sess *simSession) []proc.ID {
	if sess.group == nil {
		return nil
	}
	return sess.group.IDs
}

// Processes come and go, with their ids used again. Their sessions have watchdogs, move from process to process, and
// outlive hosts. Connections outlive their processes. Clients name processes that the kernel does not confirm. After each
// step, there must be exactly the sessions that have a connection, or no processes, or a living one.
func TestSimulatedProcesses(t *testing.T) {
	did := make(map[string]int)
	first := testSeed(t)
	for seed := first; seed < first+60; seed++ {
		synctest.Test(t, func(t *testing.T) {
			m := &simulation{t: t, rng: rand.New(rand.NewPCG(seed, 15)), kernel: &simKernel{living: make(map[proc.ID]chan struct{})},
				memory: store.NewMemory(), sessions: make(map[int64]*simSession), did: did}
			defer proc.Simulate(&proc.Kernel{Wait: m.kernel.wait})()
			m.host()
			defer func() { m.s.Close() }()
			for step := range 80 {
				m.step()
				m.check(step)
			}
		})
		if t.Failed() {
			t.Fatalf("-seed %d", seed)
		}
	}
	for _, what := range []string{"says nothing", "says what the kernel does not confirm", "moves", "ids of processes used again", "shares", "dies", "hosts", "ends"} {
		if did[what] < 20 {
			t.Errorf("%s: %d times", what, did[what])
		}
	}
	t.Log(fmt.Sprint(did))
}
