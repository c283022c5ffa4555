package chaos_test

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"holdfast/zkproto"
)

// A network joins clients, by their numbers, and the servers of a simulation. Whatever is
// written arrives as a whole frame after a delay that the seed decides (see region); so in most instants
// of virtual time one frame arrives, and what one client does rarely depends on the order
// in which goroutines run. Every connection has random numbers of its own, lest one
// client's traffic change another's.
type network struct {
	seed   uint64
	secret bool // what is sent is encrypted, and not looked at

	mu    sync.Mutex // guards the fields below and those of the lines
	hosts []host     // of servers; nil while one is down
	lines []*line
	zxids []sighting               // in their order
	born  map[string]time.Duration // when a client was told of a node, by path with the chroot
	began time.Time                // not guarded

	slotsApart time.Duration // at most, see untilSlot
}

// A host takes connections: it returns false if it is not there any more.
type host func(ctx context.Context, nc net.Conn) bool

// A cut holds back what is sent in some directions.
type cut struct{ up, down bool }

// A line is what connections of one client go over.
type line struct {
	net        *network
	client     int
	region     region
	slow       time.Duration // a frame takes up to this in addition
	cut        cut           // from all servers
	cutOff     []cut         // from each
	addrs      []string      // of servers, in the order in which the client first tried them
	servers    []int         // which they are, a permutation that the seed decides
	stretch    float64       // the session timeout that the client is told, by that of the server
	dials      uint64
	attempts   int                // to connect, since the last one that succeeded
	offset     time.Duration      // of the slots, see untilSlot
	links      map[*link]struct{} // that are not broken
	ever       []*link            // the others too: of a broken one, something may be under way
	drop       zkproto.Op         // the next request of this sort is to be lost, or its answer
	dropReply  bool
	dropped    int  // how often that has happened
	throttled  bool // requests are answered with ErrThrottled
	throttles  int  // how many were
	heldFrames int  // by cuts
	slowFrames int  // that took longer because of slow
	lostFrames int  // that were sent again
	refused    int  // connections, by servers that were behind
}

// newNetwork has a line for each client, and one that nothing is wrong with.
func newNetwork(seed uint64, clients, servers int) *network {
	n := &network{seed: seed, began: time.Now(), born: make(map[string]time.Duration), hosts: make([]host, servers), slotsApart: 1600 * time.Millisecond}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range clients + 1 {
		ln := &line{net: n, client: i, stretch: 1, links: make(map[*link]struct{}), cutOff: make([]cut, servers)}
		if ln.servers = []int{0}; servers > 1 {
			ln.servers = rng.Perm(servers)
		}
		ln.offset = time.Duration(rng.Int64N(int64(2 * time.Second)))
		if i < clients {
			ln.region = regionOf(rng)
			if ln.region == behind && servers > 1 { // such servers are behind by themselves
				ln.region = near
			}
		}
		n.lines = append(n.lines, ln)
	}
	return n
}

// setHost says who takes the connections to a server; nil: nobody.
func (n *network) setHost(server int, h host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[server] = h
}

// A listener is a host for a server that has the form of a net.Listener.
type listener struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener() *listener {
	return &listener{accept: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) take(ctx context.Context, nc net.Conn) bool {
	select {
	case l.accept <- nc:
		return true
	case <-l.closed:
	case <-ctx.Done():
	}
	return false
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return address("server") }

// server is which server an address is of. Clients try those that they know in an order that
// no seed decides; so the first that one tries is another with every seed, whatever its name.
// Called with the network's mutex held.
func (ln *line) server(addr string) int {
	i := slices.Index(ln.addrs, addr)
	if i < 0 {
		i = len(ln.addrs)
		ln.addrs = append(ln.addrs, addr)
	}
	return ln.servers[i%len(ln.servers)]
}

// isCut says which directions to a server are cut. Called with the network's mutex held.
func (ln *line) isCut(server int) cut {
	off := ln.cutOff[server]
	return cut{ln.cut.up || off.up, ln.cut.down || off.down}
}

// dial is a client's Dial. Behind a cut it waits.
func (ln *line) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n := ln.net
	n.mu.Lock()
	ln.dials++
	k := &link{line: ln, server: ln.server(addr), rng: rand.New(rand.NewPCG(n.seed, uint64(ln.client)<<32|ln.dials)), lost: make(map[int32]bool), busy: make(map[int32]bool), made: make(map[int32]bool)}
	k.up.init(k)
	k.down.init(k)
	k.up.way, k.down.way, k.lag = ln.region.ways(k.rng)
	wait := ln.untilSlot() + k.up.delay() + k.up.delay() // not down: it answers at once, however far behind
	ln.attempts++
	k.word.Store(n.secret)
	n.mu.Unlock()
	for {
		if !sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
		n.mu.Lock()
		c, h, refusal := ln.isCut(k.server), n.hosts[k.server], ln.untilSlot()
		n.mu.Unlock()
		wait = 100 * time.Millisecond
		if c.up || c.down {
			continue
		}
		if h == nil {
			if !sleep(ctx, refusal) {
				return nil, context.Cause(ctx)
			}
			return nil, syscall.ECONNREFUSED
		}
		if !h(ctx, &end{link: k, in: &k.up, out: &k.down, server: true}) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, syscall.ECONNREFUSED
		}
		n.mu.Lock()
		if n.secret {
			ln.attempts = 0 // it cannot be seen that a session is attached
		}
		ln.links[k] = struct{}{}
		ln.ever = append(ln.ever, k)
		n.mu.Unlock()
		return &end{link: k, in: &k.down, out: &k.up}, nil
	}
}

// untilSlot is how long it takes until a connection may come up. Clients pause before they
// connect again, for a random time that no seed decides and that grows with every failure.
// So connections come up, and fail, at certain instants alone, further apart than a client
// pauses, and a run does not depend on its pauses. They are not so far apart that a client
// gives every attempt up before one. Called with the network's mutex held.
func (ln *line) untilSlot() time.Duration {
	apart := min(25*time.Millisecond<<min(max(ln.attempts, 1), 6), ln.net.slotsApart)
	return apart - time.Since(ln.net.began.Add(-ln.offset))%apart
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A link is one connection.
type link struct {
	line     *line
	server   int
	rng      *rand.Rand // guarded by the network's mutex
	up, down pipe
	lag      time.Duration // see region.ways
	word     atomic.Bool   // a four-letter word and its answer have no frames, nor has what is encrypted

	mu   sync.Mutex     // guards the field below
	lost map[int32]bool // requests whose answers get lost
	busy map[int32]bool // those that are answered with ErrThrottled
	made map[int32]bool // those that make a node
}

// reset breaks the connection for the client at once. What it has sent may still be under
// way to the server, and arrives before the server is told, unless all is lost.
func (k *link) reset(all bool) {
	k.down.abandon(syscall.ECONNRESET)
	k.up.finish(syscall.ECONNRESET, all)
	k.forget()
}

func (k *link) forget() {
	n := k.line.net
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(k.line.links, k)
}

// breakAll resets all connections of the line, and says how many there were.
func (ln *line) breakAll(all bool) int {
	ln.net.mu.Lock()
	var links []*link
	for k := range ln.links {
		links = append(links, k)
	}
	ln.net.mu.Unlock()
	for _, k := range links {
		k.reset(all)
	}
	return len(links)
}

// set changes the line, and lets go what need not wait any more.
func (ln *line) set(change func(*line)) {
	ln.net.mu.Lock()
	change(ln)
	links := slices.Clone(ln.ever)
	ln.net.mu.Unlock()
	for _, k := range links {
		k.up.deliver()
		k.down.deliver()
	}
}

// welcome looks at the first frame of a client. One that is refused hears nothing but the
// end of its connection.
func (k *link) welcome(frame []byte) bool {
	n := k.line.net
	n.mu.Lock()
	welcome := n.welcome(frame, k.lag)
	if !welcome {
		k.line.refused++
	}
	wait := k.line.untilSlot()
	n.mu.Unlock()
	if !welcome {
		k.up.finish(io.EOF, true)
		time.AfterFunc(wait, func() { k.down.finish(io.EOF, true) })
	}
	return welcome
}

// request looks at a frame that the client sends, and passes on another if need be; none says
// that it gets lost, and the connection with it.
func (k *link) request(frame []byte) []byte {
	r := zkproto.NewReader(frame[4:])
	var h zkproto.RequestHeader
	h.Decode(r)
	n := k.line.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case r.Err() != nil:
		return frame
	case k.line.throttled && throttles(h.Op):
		// The server is asked for something else, so that the answer comes in its turn.
		k.line.throttles++
		k.mu.Lock()
		k.busy[h.Xid] = true
		k.mu.Unlock()
		h.Op = zkproto.OpExists
		return zkproto.EndFrame((&zkproto.ReadRequest{Path: "/"}).Append(h.Append(zkproto.BeginFrame(nil))), 0)
	case h.Op == zkproto.OpCreate2:
		k.mu.Lock()
		k.made[h.Xid] = true
		k.mu.Unlock()
	}
	if k.line.drop == 0 || k.line.drop != h.Op {
		return frame
	}
	k.line.drop = 0
	k.line.dropped++
	if !k.line.dropReply {
		return nil
	}
	k.mu.Lock()
	k.lost[h.Xid] = true
	k.mu.Unlock()
	return frame
}

// throttles reports whether a server puts such requests off (Request.isThrottlable). A client
// whose request to forget a watch is put off does not repeat it, and leaves the watch to the end
// of the connection; that is allowed for here, since all others would be taken for leaks, too.
func throttles(op zkproto.Op) bool {
	switch op {
	case zkproto.OpRemoveWatches:
		return false
	case zkproto.OpPing, zkproto.OpCloseSession, zkproto.OpAuth, zkproto.OpSASL:
		return false
	}
	return true
}

// reply looks at a frame that the server sends, likewise.
func (k *link) reply(frame []byte, first bool) []byte {
	n := k.line.net
	if first { // how much time the client believes to have is what its clock makes of it
		n.mu.Lock()
		k.line.attempts = 0
		n.mu.Unlock()
		const at = 4 + 4 // behind the length and the protocol's version
		if len(frame) >= at+4 && k.line.stretch != 1 {
			t := float64(binary.BigEndian.Uint32(frame[at:])) * k.line.stretch
			binary.BigEndian.PutUint32(frame[at:], uint32(t))
		}
		return frame
	}
	var h zkproto.ReplyHeader
	r := zkproto.NewReader(frame[4:])
	h.Decode(r)
	k.mu.Lock()
	made := k.made[h.Xid]
	delete(k.made, h.Xid)
	k.mu.Unlock()
	n.mu.Lock()
	n.committed(h.Zxid)
	if made && h.Err == zkproto.CodeOK {
		var m zkproto.CreateResponse
		m.Decode(r) // the Stat behind it does not matter
		n.born[m.Path] = time.Since(n.began)
	}
	n.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.lost[h.Xid]:
		return nil
	case k.busy[h.Xid]:
		delete(k.busy, h.Xid)
		h.Err = zkproto.CodeThrottled
		return zkproto.EndFrame(h.Append(zkproto.BeginFrame(nil)), 0)
	}
	return frame
}

// An end is a net.Conn.
type end struct {
	link    *link
	in, out *pipe
	server  bool

	mu      sync.Mutex // guards the fields below
	partial []byte
	frames  int
}

func (e *end) Read(b []byte) (int, error) { return e.in.read(b) }

// Write cuts what is written into frames.
func (e *end) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.link.word.Load() {
		return len(b), e.out.send(append([]byte(nil), b...))
	}
	e.partial = append(e.partial, b...)
	var whole []byte
	for len(e.partial) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(e.partial))
		if len(e.partial) < n {
			break
		}
		frame := append([]byte(nil), e.partial[:n]...)
		e.partial = e.partial[n:]
		e.frames++
		if e.server {
			frame = e.link.reply(frame, e.frames == 1)
		} else if e.frames > 1 {
			frame = e.link.request(frame)
		} else if !e.link.welcome(frame) {
			return len(b), nil
		}
		if frame == nil {
			e.out.send(whole)
			e.link.reset(false)
			return 0, syscall.ECONNRESET
		}
		whole = append(whole, frame...)
	}
	if err := e.out.send(whole); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close is as of a socket: the peer reads what is under way, then the end.
func (e *end) Close() error {
	e.in.abandon(net.ErrClosed)
	e.out.finish(io.EOF, false)
	e.in.setDeadline(time.Time{})
	e.link.forget()
	return nil
}

func (e *end) LocalAddr() net.Addr                { return address("here") }
func (e *end) RemoteAddr() net.Addr               { return address("there") }
func (e *end) SetReadDeadline(t time.Time) error  { e.in.setDeadline(t); return nil }
func (e *end) SetWriteDeadline(t time.Time) error { return nil } // a write never waits
func (e *end) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }

type address string

func (address) Network() string  { return "simulated" }
func (a address) String() string { return string(a) }
