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

	"holdfast/internal/proc"
	"holdfast/zkproto"
)

// A network joins the numbered clients and the servers of a simulation. Whatever is written arrives as a
// whole frame after a delay that the seed decides (see region). So at most instants of virtual time one
// frame arrives, and a client's actions rarely depend on the order in which goroutines run. Every
// connection has its own random numbers, so that one client's traffic does not change another's.
type network struct {
	seed   uint64
	secret bool  // frames are encrypted, and not inspected
	plan   *plan // decides instead of chance; nil in most worlds

	mu    sync.Mutex // guards the fields below and those of the lines
	hosts []host     // by server; nil while one is down
	lines []*line
	zxids []sighting               // in order
	born  map[string]time.Duration // when a client first got a node's name, by path with the chroot
	began time.Time                // not guarded

	slotsApart time.Duration // at most, see untilSlot

	// Of a world with processes:
	kernel  *kernel                              // not guarded
	refuses func(session int64, heard time.Time) // not guarded; the server does not know a session any more
	seats   map[int64]*seat                      // by session
}

// A host accepts connections. It returns false if it is down.
type host func(ctx context.Context, nc net.Conn) bool

// A cut holds back messages in some directions.
type cut struct{ up, down bool }

// A line carries the connections of one client.
type line struct {
	net        *network
	client     int
	region     region
	slow       time.Duration // additional delay of a frame, at most
	cut        cut           // from all servers
	cutOff     []cut         // from each server
	addrs      []string      // addresses of servers, in the order in which the client first tried them
	servers    []int         // the servers at these addresses, a permutation that the seed decides
	stretch    float64       // factor for the session timeout that the client is told
	dials      uint64
	attempts   int                // to connect, since the last success
	offset     time.Duration      // of the slots, see untilSlot
	links      map[*link]struct{} // links that are not broken
	ever       []*link            // all links: a broken one may still have frames in flight
	drop       zkproto.Op         // the next request of this kind, or its answer, is to be lost
	dropReply  bool
	dropped    int  // how many were lost
	throttled  bool // requests are answered with ErrThrottled
	throttles  int  // how many requests were throttled
	heldFrames int  // frames held back by cuts
	slowFrames int  // frames that took longer because of slow
	lostFrames int  // frames that were sent again
	refused    int  // connections refused by servers that lagged

	// Of a world with processes:
	peer    proc.ID // at the client's end of new connections
	life    int     // of its process: the number of those that have died
	renames bool    // the client says that its process is peer
}

// newNetwork makes a line for each client, and one without faults.
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
			if ln.region == behind && servers > 1 { // servers of an ensemble lag on their own
				ln.region = near
			}
		}
		n.lines = append(n.lines, ln)
	}
	return n
}

// setHost sets the host that accepts connections to a server; nil for none.
func (n *network) setHost(server int, h host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[server] = h
}

// A listener is a host in the form of a net.Listener.
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

// server returns the server of an address. Clients try the addresses in an order that no seed decides. So
// the seed decides which server the first address that a client tries is. n.mu must be held.
func (ln *line) server(addr string) int {
	i := slices.Index(ln.addrs, addr)
	if i < 0 {
		i = len(ln.addrs)
		ln.addrs = append(ln.addrs, addr)
	}
	return ln.servers[i%len(ln.servers)]
}

// isCut returns which directions to a server are cut. n.mu must be held.
func (ln *line) isCut(server int) cut {
	off := ln.cutOff[server]
	return cut{ln.cut.up || off.up, ln.cut.down || off.down}
}

// dial is a client's Dial. During a cut it waits.
func (ln *line) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n := ln.net
	n.mu.Lock()
	ln.dials++
	k := &link{line: ln, number: ln.dials, peer: ln.peer, server: ln.server(addr), rng: rand.New(rand.NewPCG(n.seed, uint64(ln.client)<<32|ln.dials)), lost: make(map[int32]bool), busy: make(map[int32]bool), made: make(map[int32]bool)}
	k.up.init(k)
	k.down.init(k)
	k.up.way, k.down.way, k.lag = ln.region.ways(k.rng)
	wait := ln.untilSlot() + k.up.delay() + k.up.delay() // not down: the server answers at once, however far it lags
	if n.plan != nil {
		wait = n.plan.dials(ln)
	}
	ln.attempts++
	k.word.Store(n.secret)
	n.mu.Unlock()
	for {
		if !sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
		n.mu.Lock()
		c, h, refusal := ln.isCut(k.server), n.hosts[k.server], ln.untilSlot()
		k.peer = ln.peer
		n.mu.Unlock()
		wait = 100 * time.Millisecond
		if n.plan != nil && (c.up || c.down || h == nil) {
			return nil, syscall.ECONNREFUSED
		}
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
			ln.attempts = 0 // the attach itself is not visible
		}
		ln.links[k] = struct{}{}
		ln.ever = append(ln.ever, k)
		n.mu.Unlock()
		return &end{link: k, in: &k.down, out: &k.up}, nil
	}
}

// untilSlot returns how long it takes until a connection may come up. Clients pause before they
// reconnect, for a random time that no seed decides and that grows with every failure. So connections
// come up, and fail, only at certain times that are further apart than a client's pause. Thus a run
// does not depend on the pauses. The times are close enough that no client abandons every attempt
// before one. n.mu must be held.
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
	number   uint64
	server   int
	rng      *rand.Rand // guarded by the network's mutex
	up, down pipe
	lag      time.Duration // see region.ways
	word     atomic.Bool   // a four-letter word, its answer and encrypted bytes have no frames

	// Of a world with processes:
	peer    proc.ID     // at the client's end
	orphan  atomic.Bool // the client has lost it, and the server has not, see line.abandon
	session int64       // guarded by the network's mutex

	mu   sync.Mutex     // guards the field below
	lost map[int32]bool // requests whose answers will be lost
	busy map[int32]bool // requests to be answered with ErrThrottled
	made map[int32]bool // requests that make a node
}

// reset breaks the connection for the client at once. Frames from the client may still be in flight, and
// arrive before the server sees the end, unless all are lost.
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

// breakAll resets all connections of the line, and returns how many there were.
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

// set changes the line, and releases frames that need not wait any more.
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

// welcome checks the first frame of a client, and returns the frame to pass on. A refused client gets only the end of its
// connection.
func (k *link) welcome(frame []byte) (_ []byte, welcome bool) {
	n := k.line.net
	n.mu.Lock()
	welcome = n.welcome(frame, k.lag)
	if !welcome {
		k.line.refused++
	}
	if n.kernel != nil {
		frame = k.introduce(frame)
	}
	wait := k.line.untilSlot()
	n.mu.Unlock()
	if !welcome {
		k.up.finish(io.EOF, true)
		time.AfterFunc(wait, func() { k.down.finish(io.EOF, true) })
	}
	return frame, welcome
}

// request inspects a frame that the client sends, and returns the frame to pass on. nil means
// that the frame and the connection are lost.
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
	case n.plan.loses(k, &k.up, h.Op, 0):
		return nil
	case k.line.throttled && throttles(h.Op):
		// The server is asked something else, so that the answer comes in order.
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

// throttles reports whether a server throttles such requests (Request.isThrottlable). If a
// request to remove a watch is throttled, a client does not repeat it. The watch stays until
// the connection ends. The network never throttles these, since the leak check would count the
// watches.
func throttles(op zkproto.Op) bool {
	switch op {
	case zkproto.OpRemoveWatches:
		return false
	case zkproto.OpPing, zkproto.OpCloseSession, zkproto.OpAuth, zkproto.OpSASL:
		return false
	}
	return true
}

// reply inspects a frame that the server sends, in the same way.
func (k *link) reply(frame []byte, first bool) []byte {
	n := k.line.net
	if first { // the client's clock changes the timeout that it believes in
		n.mu.Lock()
		k.line.attempts = 0
		if n.kernel != nil {
			n.answered(k, frame)
		}
		n.mu.Unlock()
		const at = 4 + 4 // after the length and the protocol's version
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
	if n.plan.loses(k, &k.down, zkproto.Op(h.Xid), h.Err) {
		n.mu.Unlock()
		return nil
	}
	n.committed(h.Zxid)
	if s := n.seats[k.session]; s != nil && h.Xid != zkproto.XidNotification {
		s.heard = time.Now()
	}
	if made && h.Err == zkproto.CodeOK {
		var m zkproto.CreateResponse
		m.Decode(r) // the Stat after it does not matter
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

// Write splits its data into frames.
func (e *end) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.server && e.link.orphan.Load() {
		return len(b), nil
	}
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
		switch {
		case e.server:
			frame = e.link.reply(frame, e.frames == 1)
		case e.frames > 1:
			frame = e.link.request(frame)
		default:
			var welcome bool
			if frame, welcome = e.link.welcome(frame); !welcome {
				return len(b), nil
			}
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

// Close works as with a socket: the peer reads the data in flight, then the end.
func (e *end) Close() error {
	if !e.server && e.link.orphan.Load() {
		e.in.desert(net.ErrClosed)
	} else {
		e.in.abandon(net.ErrClosed)
		e.out.finish(io.EOF, false)
	}
	if e.server {
		e.link.line.net.left(e.link)
	}
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
