package chaos_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/chaos"
	"holdfast/internal/proc"
	"holdfast/zkproto"
)

// TestSimulationOfProcesses runs worlds on one machine: each client is a process, and its session belongs to it. Processes
// die, and their connections may outlive them for a moment. Watchdogs outlive them, and work under their locks until they
// end. Process ids are used again soon. Sessions move to other processes, clients are behind relays, and hosts change. The
// session of a dead process must end at once, and that of a living one never before its timeout.
func TestSimulationOfProcesses(t *testing.T) {
	simulateOthers(t, options{Processes: true}, fewSeeds/2, func(s *summary, n int) {
		s.mustHave(t, n, "deaths", "sessions that ended with their processes", "deaths with a watchdog", "connections that outlived processes",
			"relays killed", "moves", "heirs with the process id")
	})
}

// A kernel has the processes of the simulated machine. It has few process ids, so they are used again soon.
type kernel struct {
	mu      sync.Mutex
	rng     *rand.Rand
	started uint64
	living  map[proc.ID]chan struct{} // closed when the process ends
	dialing *proc.ID                  // the process whose client comes next; nil for one that is no process of this machine
}

// pids are the process ids: for at most five clients, each with a watchdog and an heir, and for their relay.
const pids = 13

func newKernel(seed uint64) *kernel {
	return &kernel{rng: rand.New(rand.NewPCG(seed, 8000)), living: make(map[proc.ID]chan struct{})}
}

// simulated returns what proc asks.
func (k *kernel) simulated() *proc.Kernel {
	return &proc.Kernel{
		Self: func() (proc.Group, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			id := k.dialing
			k.dialing = nil
			if id == nil {
				return proc.Group{}, errors.ErrUnsupported
			}
			return proc.Group{IDs: []proc.ID{*id}}, nil
		},
		Start: func(pid int) (uint64, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			for id := range k.living {
				if int(id.PID) == pid {
					return id.Start, nil
				}
			}
			return 0, fs.ErrNotExist
		},
		Wait: k.wait,
	}
}

func (k *kernel) wait(ctx context.Context, g proc.Group) error {
	for _, id := range g.IDs {
		k.mu.Lock()
		end := k.living[id]
		k.mu.Unlock()
		if end == nil {
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

// spawn starts a process with any free process id.
func (k *kernel) spawn() proc.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pid := range k.rng.Perm(pids) {
		if id := (proc.ID{PID: int32(pid + 1), Start: k.started + 1}); !k.has(id.PID) {
			k.started++
			k.living[id] = make(chan struct{})
			return id
		}
	}
	panic("more processes than ids")
}

// has reports whether a process has this id. k.mu must be held.
func (k *kernel) has(pid int32) bool {
	for id := range k.living {
		if id.PID == pid {
			return true
		}
	}
	return false
}

// stranger returns an identity that means no living process here: of a client in a container.
func (k *kernel) stranger() proc.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	return proc.ID{PID: 1 + k.rng.Int32N(pids), Start: k.started}
}

func (k *kernel) kill(id proc.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if end := k.living[id]; end != nil {
		close(end)
		delete(k.living, id)
	}
}

// replace kills a process, and starts another with its process id.
func (k *kernel) replace(id proc.ID) proc.ID {
	k.kill(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started++
	next := proc.ID{PID: id.PID, Start: k.started}
	k.living[next] = make(chan struct{})
	return next
}

func (k *kernel) lives(id proc.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.living[id] != nil
}

// Confirm answers what the kernel answers about the other end of a Unix socket.
func (e *end) Confirm(g proc.Group) error {
	if k := e.link.line.net.kernel; k == nil || !k.lives(e.link.peer) || g.IDs[0] != e.link.peer {
		return errors.New("the peer is another process")
	}
	return nil
}

// A belonging is how a client belongs to processes. It is the nemesis's of processes.
type belonging struct {
	id       proc.ID // its process, which is at the other end of its connections
	outlives bool    // its sessions have their timeouts, and belong to no process
	relay    bool    // its connections are those of the relay
	unknown  bool    // its session has moved to a process that does not say so
	watchdog proc.ID // zero without one
	shared   chan struct{}
}

// bound reports whether the server can know when the client is dead.
func (b *belonging) bound() bool { return !b.outlives && !b.relay && !b.unknown }

// processes are what a world with processes adds.
type processes struct {
	*world
	kernel *kernel
	relay  proc.ID
	checks sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	figures map[string]int
	excused map[int64]bool  // sessions that may end at present
	ends    []time.Duration // when sessions of dead processes ended
	unsure  bool            // that is not known of all
}

// haveProcesses puts the world on one machine.
func (w *world) haveProcesses() {
	k := newKernel(w.seed)
	w.processes = &processes{world: w, kernel: k, relay: k.spawn(), figures: make(map[string]int), excused: make(map[int64]bool)}
	w.net.kernel, w.net.refuses = k, w.processes.refused
	w.net.seats = make(map[int64]*seat)
	w.addrs = []string{"unix:///simulated"}
}

func (p *processes) did(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.figures[what]++
}

// begin makes a process for a client, and connects it.
func (p *processes) begin(c *client) {
	b := &belonging{id: p.kernel.spawn()}
	says, peer := b.id, b.id
	rng := p.kernel.rng // the nemesis's, and that of the beginning
	switch n := rng.IntN(8); {
	case p.calm: // there, everybody must learn of a death at once
	case n == 0:
		b.outlives = true
	case n <= 3:
		b.relay, peer = true, p.relay
		if says = b.id; rng.IntN(2) == 0 {
			says = p.kernel.stranger()
		}
	}
	c.line.set(func(ln *line) { ln.peer, ln.renames = peer, false })
	c.belongs = b
	p.kernel.mu.Lock()
	if p.kernel.dialing = &says; b.outlives {
		p.kernel.dialing = nil
	}
	p.kernel.mu.Unlock()
	p.tell("client %d: process %v, says %v, peer %v, outlives %v", c.number, b.id, says, peer, b.outlives)
	z := p.dial(c.line, p.follow(c))
	c.zk.Store(z)
	if rng.IntN(2) == 0 {
		return
	}
	told, watchdog := make(chan struct{}), p.kernel.spawn()
	b.watchdog, b.shared = watchdog, told
	go func() {
		if z.Share(context.Background(), int(watchdog.PID)) == nil {
			close(told)
		}
	}()
}

// guarded reports whether the client has a watchdog of which the server has been told.
func (b *belonging) guarded() bool {
	if b.shared == nil {
		return false
	}
	select {
	case <-b.shared:
		return true
	default:
		return false
	}
}

// processFaults are faults of processes.
var processFaults = []fault{
	{kind: "process killed", weight: 6, do: (*nemesis).killProcess},
	{kind: "watchdog killed", do: (*nemesis).killWatchdog},
	{kind: "relay killed", weight: 2, do: (*nemesis).killRelay},
	{kind: "session moves to another process", weight: 2, do: (*nemesis).move},
	{kind: "session moves to a process with the same id", weight: 3, do: (*nemesis).inherit},
}

// killProcess kills a client's process, and starts another one. The watchdog ends the work under the locks of the dead
// process, and then itself.
func (n *nemesis) killProcess() bool {
	p, c := n.processes, n.victim()
	if b := c.belongs; !n.calm && b.bound() && b.guarded() { // the server must be told of the watchdog again
		c.line.breakAll(true)
		p.untilSeated(c)
		time.Sleep(time.Duration(n.rng.ExpFloat64() * float64(n.timeout/8)))
	}
	b, z, session := c.belongs, c.zk.Load(), c.session.Swap(0)
	n.tell("killed: client %d, process %v, watchdog %v", c.number, b.id, b.watchdog)
	links := c.line.die()
	guarded := b.bound() && b.guarded()
	n.forget(c)
	p.did("deaths")
	if guarded {
		p.did("deaths with a watchdog")
		p.kernel.kill(b.id)
	}
	after := time.Duration(0)
	if n.rng.IntN(2) == 0 {
		after = time.Duration(n.rng.ExpFloat64() * float64(n.timeout/8))
		p.did("connections that outlived processes")
	}
	time.AfterFunc(after, func() {
		for _, k := range links {
			k.up.finish(io.EOF, false)
		}
	})
	if guarded { // its work goes on for a moment
		time.Sleep(min(time.Duration(n.rng.ExpFloat64()*float64(n.timeout/8)), n.timeout/2))
	}
	p.checks.Go(func() { z.Close() })
	time.Sleep(time.Microsecond) // nobody works under its locks any more
	p.kernel.kill(b.id)
	if b.shared != nil {
		p.kernel.kill(b.watchdog)
	}
	p.checks.Go(func() { p.mustEnd(session, b.bound() && (b.shared == nil || guarded)) })
	p.begin(c)
	return session != 0
}

// forget forgets the claims of a client that is dead: nobody can be told.
func (w *world) forget(c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.live {
		if l.client == c {
			delete(w.live, l)
		}
	}
}

var errDead = errors.New("the process of this client has ended")

// mustEnd checks that the session of a dead client ends as soon as its last connection has ended, if the server knows the
// process.
func (p *processes) mustEnd(session int64, bound bool) {
	const soon = 20 * time.Millisecond
	if session == 0 {
		return
	}
	dead := time.Now()
	until := dead.Add(2*p.timeout + 4*p.tick)
	for up := time.Now(); time.Now().Before(until); time.Sleep(soon / 2) {
		if s := p.net.seat(session); s.connected || !p.servers.(*oneServer).serves() {
			up = time.Now()
		} else if !bound || !s.bound {
			break
		} else if time.Since(up) >= soon {
			if p.servers.expire(session) {
				p.found("death", "", "session 0x%x is there %v after the end of its processes and connections", uint64(session), time.Since(up))
			} else {
				p.did("sessions that ended with their processes")
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if s.left.After(dead) {
				dead = s.left
			}
			p.ends = append(p.ends, dead.Sub(p.began))
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsure = true
}

// refused checks that the session that a server does not know any more has not ended early. heard is when the server last
// answered it.
func (p *processes) refused(session int64, heard time.Time) {
	p.mu.Lock()
	excused := p.excused[session]
	p.mu.Unlock()
	if d := time.Since(heard); d < p.timeout-p.tick && !excused && !p.endedByForce(session) {
		p.found("early end", "", "session 0x%x of a living process has ended; the server heard from it %v before, and its timeout is %v", uint64(session), d, p.timeout)
	}
}

// killWatchdog kills a watchdog alone. Its client lives, and loses nothing.
func (n *nemesis) killWatchdog() bool {
	b := n.victim().belongs
	if !b.guarded() {
		return false
	}
	n.processes.kernel.kill(b.watchdog)
	b.watchdog, b.shared = proc.ID{}, nil
	return true
}

// killRelay kills the relay, with the connections of the clients behind it, and starts another one.
func (n *nemesis) killRelay() bool {
	p := n.processes
	if p.calm {
		return false
	}
	p.kernel.kill(p.relay)
	p.relay = p.kernel.spawn()
	broken := 0
	for _, c := range p.clients {
		if c.belongs.relay {
			c.line.set(func(ln *line) { ln.peer = p.relay })
			broken += c.line.breakAll(n.rng.IntN(2) == 0)
		}
	}
	if broken > 0 {
		p.did("relays killed")
	}
	return broken > 0
}

// mover returns a client whose session can move, or nil. In a calm world no connection breaks.
func (n *nemesis) mover() *client {
	for _, i := range n.rng.Perm(len(n.clients)) {
		c := n.clients[i]
		if s := n.net.seat(c.session.Load()); !n.calm && c.belongs.bound() && c.belongs.shared == nil && s.bound && c.line.has(s.link) {
			return c
		}
	}
	return nil
}

// move lets a child of a client's process attach the session with the password. It does not say so. Then the parent ends.
func (n *nemesis) move() bool {
	p, c := n.processes, n.mover()
	if c == nil {
		return false
	}
	b := c.belongs
	parent := b.id
	b.id, b.unknown = p.kernel.spawn(), true
	n.tell("client %d: %v moves to %v", c.number, parent, b.id)
	c.line.set(func(ln *line) { ln.peer = b.id })
	c.line.breakAll(true)
	p.untilSeated(c) // until then, the parent lives
	p.kernel.kill(parent)
	p.did("moves")
	return true
}

// untilSeated waits until a client has a connection of its present process.
func (p *processes) untilSeated(c *client) {
	const pause = 5 * time.Millisecond
	for i := 1; ; i++ {
		if s := p.net.seat(c.session.Load()); s.connected && s.peer == c.belongs.id {
			return
		}
		if time.Sleep(pause); i%int(5*time.Second/pause) == 0 { // it may have connected as the process before
			c.line.breakAll(true)
		}
	}
}

// inherit ends a client's process. Its connection outlives it, until another process with the same id has attached the
// session, and says so. Then the connection of the other process breaks.
func (n *nemesis) inherit() bool {
	p, c := n.processes, n.mover()
	if c == nil {
		return false
	}
	b, session, at := c.belongs, c.session.Load(), n.log.Now()
	p.excuse(session, true)
	b.id = p.kernel.replace(b.id)
	n.tell("client %d: %v inherits its session", c.number, b.id)
	links := c.line.orphan(b.id)
	p.untilSeated(c)
	for _, k := range links {
		k.up.finish(io.EOF, false)
	}
	if c.session.Load() != session { // it has ended meanwhile with its process, since the host has failed
		n.endsByForce(session, at)
		return true
	}
	p.excuse(session, false)
	p.did("heirs with the process id")
	c.line.breakAll(true)
	return true
}

func (p *processes) excuse(session int64, may bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.excused[session] = may
}

// check waits for the checks of deaths.
func (p *processes) check() {
	p.checks.Wait()
	p.onces = p.figures
}

// disturbed returns when the sessions of dead processes ended, as disturbances of all queues. ok is false if that is not
// known of all.
func (w *world) disturbed(locks []lockSpec) (ops []chaos.Op, ok bool) {
	p := w.processes
	if p == nil {
		return nil, true
	}
	for _, at := range p.ends {
		for _, l := range locks {
			for _, id := range l.ids {
				ops = append(ops, chaos.Op{Kind: chaos.Break, Lock: id.id, Call: at, Return: chaos.Never})
			}
		}
	}
	return ops, !p.unsure
}

// A seat is what the network knows of a session.
type seat struct {
	link      *link     // its latest connection
	heard     time.Time // when the server last answered it
	connected bool      // the server has not seen the end of its connection
	left      time.Time // when it has
	bound     bool      // the server said that the session belongs to the process
	peer      proc.ID
}

// has reports whether the client has not lost a connection.
func (ln *line) has(k *link) bool {
	ln.net.mu.Lock()
	defer ln.net.mu.Unlock()
	_, ok := ln.links[k]
	return ok
}

// seat returns what is known of a session.
func (n *network) seat(session int64) seat {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seats[session]; s != nil {
		return *s
	}
	return seat{}
}

// die takes the line's connections from a client whose process is dead. Messages under way arrive, and no others come after them.
// It makes no new ones.
func (ln *line) die() []*link {
	ln.net.mu.Lock()
	ln.life++
	ln.net.mu.Unlock()
	return ln.abandon(nil)
}

// dialOf returns the Dial of a client whose process lives until the next die.
func (ln *line) dialOf() func(ctx context.Context, network, addr string) (net.Conn, error) {
	life := ln.lifetime()
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ln.lifetime() != life {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		nc, err := ln.dial(ctx, network, addr)
		if err == nil && ln.lifetime() != life { // it has died meanwhile
			nc.(*end).link.reset(true)
			return nil, errDead
		}
		return nc, err
	}
}

func (ln *line) lifetime() int {
	ln.net.mu.Lock()
	defer ln.net.mu.Unlock()
	return ln.life
}

// orphan takes the line's connections from a client, so that it connects as another process with the same id, and says so.
func (ln *line) orphan(next proc.ID) []*link {
	ln.net.mu.Lock()
	ln.peer, ln.renames = next, true
	ln.net.mu.Unlock()
	return ln.abandon(errDead)
}

// abandon separates the client from its connections, which are open for the server. With an error, the client sees their
// end.
func (ln *line) abandon(err error) (all []*link) {
	ln.net.mu.Lock()
	for k := range ln.links {
		k.orphan.Store(true)
		all = append(all, k)
	}
	clear(ln.links)
	ln.net.mu.Unlock()
	slices.SortFunc(all, func(a, b *link) int { return int(a.number) - int(b.number) })
	for _, k := range all {
		k.up.deliver() // a cut does not hold it up any more
		if err != nil {
			k.down.desert(err)
		}
	}
	return all
}

// introduce reads the first frame of a client, and returns the frame to pass on. The network's mutex must be held.
func (k *link) introduce(frame []byte) []byte {
	var m zkproto.ConnectRequest
	m.Decode(zkproto.NewReader(frame[4:]))
	k.session = m.SessionID
	if g, err := proc.Decode(m.Processes); err == nil && k.line.renames {
		g.IDs[0] = k.peer
		m.Processes = g.Append(nil)
		frame = zkproto.EndFrame(m.Append(zkproto.BeginFrame(nil)), 0)
	}
	return frame
}

// answered reads the answer to it. n.mu must be held.
func (n *network) answered(k *link, frame []byte) {
	var m zkproto.ConnectResponse
	r := zkproto.NewReader(frame[4:])
	m.Decode(r)
	if m.Timeout > 0 {
		k.session = m.SessionID
		n.seats[m.SessionID] = &seat{link: k, heard: time.Now(), connected: true, bound: r.Remaining() > 0, peer: k.peer}
	} else if s := n.seats[k.session]; s != nil && !k.orphan.Load() {
		session, heard := k.session, s.heard
		time.AfterFunc(0, func() { n.refuses(session, heard) })
	}
}

// left notes that the server has closed a connection.
func (n *network) left(k *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.seats[k.session]; s != nil && s.link == k {
		s.connected, s.left = false, time.Now()
	}
}
