package zkserver

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// A run is a loaded server on a disk that may crash. It records what its clients saw, and when.
type run struct {
	h    *history
	fs   *crashfs.FS
	s    *Server
	seed uint64

	mu          sync.Mutex
	sightings   []sighting
	newSessions []int64 // in the order of their zxids
	passwords   map[int64][]byte
	watched     []zkproto.WatcherEvent
	err         error
}

// A sighting is a fact that a client knew when the record had a certain length.
type sighting struct {
	at    int
	zxid  int64 // it saw the state after this zxid, or
	event int   // the event with this number, counted from 1
}

func (r *run) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// seen returns the last zxid whose effects a client had seen when the record had length cut.
func (r *run) seen(cut int) int64 {
	z := r.h.first
	for _, s := range r.sightings {
		switch {
		case s.at > cut:
		case s.event > 0:
			z = max(z, r.h.events[s.event-1])
		default:
			z = max(z, s.zxid)
		}
	}
	return z
}

// runLoad starts a server on files, loads it with clients, and stops it. wrap may put
// another store between the server and its store.
func runLoad(from *survivor, files map[string][]byte, seed uint64, l crashfs.Lies, wrap func(store.Store) store.Store) (*run, error) {
	r := &run{fs: crashfs.New(files), seed: seed, passwords: make(map[int64][]byte)}
	r.h = &history{seed: seed, start: from, times: make(map[int64]int64)}
	r.fs.Lies, r.fs.NoRoom = l, seed%4 == 1
	var logged complaints
	st := store.OpenOn(r.fs, small)
	cfg, err := Config{Logger: logged.logger()}.withDefaults()
	if err != nil {
		return nil, err
	}
	if r.s, err = start(cfg, login.Users{}, wrap(st)); err != nil {
		st.Close()
		return nil, err
	}
	r.call(func() { r.h.first = r.s.owner.zxid })

	rng := rand.New(rand.NewPCG(seed, 1))
	observer := r.dial(rng)
	observer.connect(0, nil)
	observer.watchAll()
	var clients, janitor, listener sync.WaitGroup
	listener.Go(observer.listen)
	for i := range 6 {
		c := r.dial(rand.New(rand.NewPCG(seed, uint64(2+i))))
		clients.Go(func() { c.work(25) })
	}
	stop := make(chan struct{})
	janitor.Go(func() { r.janitor(rand.New(rand.NewPCG(seed, 99)), stop) })
	clients.Wait()
	close(stop)
	janitor.Wait() // it may be about to remove a node
	var last int64
	r.call(func() { last = r.s.owner.zxid })
	r.s.Close()
	listener.Wait()
	if r.err == nil {
		r.err = logged.err()
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := r.h.complete(last, r.newSessions); err != nil {
		return nil, err
	}
	for i, e := range r.watched {
		if want := r.h.eventAt[i]; e.Type != want.Type || e.Path != want.Path {
			return nil, fmt.Errorf("event %d: %v; want %v", i, e, want)
		}
	}
	return r, nil
}

// call runs f in the owner's goroutine and waits until its changes are on disk.
func (r *run) call(f func()) {
	released := make(chan struct{})
	r.s.queue.push(&request{kind: kindCall, call: func() {
		f()
		r.s.owner.batch.released = append(r.s.owner.batch.released, func() { close(released) })
	}})
	select {
	case <-released:
	case <-r.s.done:
	}
}

// janitor does, at random moments, what the server's clock does: it removes unneeded nodes and ends
// a session.
func (r *run) janitor(rng *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		r.call(func() {
			o := &r.s.owner
			for _, path := range o.tree.Reapable(o.now.UnixMilli()) {
				tx := r.s.nextTxn(0)
				o.tree.Reap(tx, path)
				r.note(entry{zxid: tx.Zxid, op: opReap, path: path})
			}
			r.s.notify(nil)
			if rng.IntN(20) == 0 {
				for _, sess := range o.sessions {
					if sess.conn == nil { // a session that a client has left
						r.s.endSession(sess, func() {})
						r.note(entry{zxid: o.zxid, op: zkproto.OpCloseSession, session: sess.id})
						break
					}
				}
			}
		})
		r.saw(0)
	}
}

func (r *run) note(e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.entries = append(r.h.entries, e)
}

// saw records that a client knows zxid by now.
func (r *run) saw(zxid int64, stats ...zkproto.Stat) {
	at := r.fs.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sightings = append(r.sightings, sighting{at: at, zxid: zxid})
	for _, s := range stats {
		if s.Czxid > r.h.first { // the records have older nodes
			r.h.times[s.Czxid] = s.Ctime
		}
		if s.Mzxid > r.h.first {
			r.h.times[s.Mzxid] = s.Mtime
		}
	}
}

// A crashClient sends bursts of random requests.
type crashClient struct {
	r       *run
	rng     *rand.Rand
	nc      net.Conn
	in      *bufio.Reader
	session *zkproto.ConnectResponse
	as      []tree.Identity
	xid     int32
	sent    []entry
}

func (r *run) dial(rng *rand.Rand) *crashClient {
	c := &crashClient{r: r, rng: rng}
	c.reconnect()
	return c
}

func (c *crashClient) reconnect() {
	client, server := net.Pipe()
	c.r.s.accept(server)
	c.nc, c.in, c.as = client, bufio.NewReader(client), nil
}

func (c *crashClient) frame(ms ...message) {
	b := zkproto.BeginFrame(nil)
	for _, m := range ms {
		b = m.Append(b)
	}
	if _, err := c.nc.Write(zkproto.EndFrame(b, 0)); err != nil {
		c.r.fail("write: %v", err)
	}
}

func (c *crashClient) receive() *zkproto.Reader {
	frame, err := zkproto.ReadFrame(c.in, nil, 64<<20)
	if err != nil {
		c.r.fail("read: %v", err)
	}
	return zkproto.NewReader(frame)
}

// connecting is held while a session is made: only the order of the replies shows which zxid made
// which session.
var connecting sync.Mutex

func (c *crashClient) connect(timeout int32, old *zkproto.ConnectResponse) {
	m := &zkproto.ConnectRequest{Timeout: 10_000 + timeout, Passwd: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		m.SessionID, m.Passwd = old.SessionID, old.Passwd
	}
	connecting.Lock()
	defer connecting.Unlock()
	c.frame(m)
	c.session = new(zkproto.ConnectResponse)
	c.session.Decode(c.receive())
	if old != nil && c.session.SessionID == old.SessionID {
		return
	}
	if c.session.SessionID == 0 { // the server has ended its session
		c.nc.Close()
		c.reconnect()
		c.frame(&zkproto.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, 16), HasReadOnly: true})
		c.session.Decode(c.receive())
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.newSessions = append(c.r.newSessions, c.session.SessionID)
	c.r.passwords[c.session.SessionID] = c.session.Passwd
}

func (c *crashClient) watchAll() {
	c.frame(&zkproto.RequestHeader{Xid: 1, Op: zkproto.OpAddWatch}, &zkproto.AddWatchRequest{Path: "/", Mode: zkproto.ModePersistentRecursive})
	c.receive()
}

// listen records the events of the watch on everything until the server ends.
func (c *crashClient) listen() {
	for n := 1; ; n++ {
		frame, err := zkproto.ReadFrame(c.in, nil, 1<<20)
		if err != nil {
			return
		}
		at := c.r.fs.Now()
		body := zkproto.NewReader(frame)
		new(zkproto.ReplyHeader).Decode(body)
		var e zkproto.WatcherEvent
		e.Decode(body)
		c.r.mu.Lock()
		c.r.watched = append(c.r.watched, e)
		c.r.sightings = append(c.r.sightings, sighting{at: at, event: n})
		c.r.mu.Unlock()
	}
}

func (c *crashClient) authenticate() {
	c.as = everybody
	c.frame(&zkproto.RequestHeader{Xid: zkproto.XidAuth, Op: zkproto.OpAuth}, &zkproto.AuthRequest{Scheme: "digest", Auth: []byte("u:p")})
	c.receive()
}

func (c *crashClient) work(bursts int) {
	c.connect(0, nil)
	for range bursts {
		if c.rng.IntN(10) == 0 && len(c.as) == 0 {
			c.authenticate()
		}
		c.sent = c.sent[:0]
		for range 1 + c.rng.IntN(6) {
			c.send()
		}
		for i := range c.sent {
			c.hear(&c.sent[i])
		}
		switch c.rng.IntN(12) {
		case 0: // end the session
			c.xid++
			c.frame(&zkproto.RequestHeader{Xid: c.xid, Op: zkproto.OpCloseSession})
			c.hear(&entry{op: zkproto.OpCloseSession, session: c.session.SessionID})
			c.nc.Close()
			c.reconnect()
			c.connect(0, nil)
		case 1: // resume it
			c.nc.Close()
			c.reconnect()
			c.connect(0, c.session)
		case 2: // leave it to expire
			c.nc.Close()
			c.reconnect()
			c.connect(0, nil)
		}
		if c.r.err != nil {
			break
		}
	}
	c.nc.Close()
}

// send sends one random request.
func (c *crashClient) send() {
	c.xid++
	e := entry{session: c.session.SessionID, as: slices.Clone(c.as)}
	switch k := c.rng.IntN(20); {
	case k < 3: // a read
		e.op = []zkproto.Op{zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren2}[k]
		c.frame(&zkproto.RequestHeader{Xid: c.xid, Op: e.op}, &zkproto.ReadRequest{Path: c.path()})
	case k < 6:
		e.op = zkproto.OpMulti
		for range c.rng.IntN(5) {
			o := c.write()
			if o.Op == zkproto.OpSetACL {
				o = zkproto.MultiOp{Op: zkproto.OpCheck, Path: o.Path, Version: o.Version}
			}
			e.ops = append(e.ops, o)
		}
		c.frame(&zkproto.RequestHeader{Xid: c.xid, Op: e.op}, &zkproto.MultiRequest{Ops: e.ops})
	default:
		e.write = c.write()
		e.op = e.write.Op
		o := &e.write
		var m message
		switch o.Op {
		case zkproto.OpCreateTTL:
			m = &zkproto.CreateTTLRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags, TTL: o.TTL}
		case zkproto.OpDelete:
			m = &zkproto.DeleteRequest{Path: o.Path, Version: o.Version}
		case zkproto.OpSetData:
			m = &zkproto.SetDataRequest{Path: o.Path, Data: o.Data, Version: o.Version}
		case zkproto.OpSetACL:
			m = &zkproto.SetACLRequest{Path: o.Path, ACL: o.ACL, Version: o.Version}
		default:
			m = &zkproto.CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags}
		}
		c.frame(&zkproto.RequestHeader{Xid: c.xid, Op: e.op}, m)
	}
	c.sent = append(c.sent, e)
}

// path returns one of a few paths, so that requests conflict.
func (c *crashClient) path() string {
	path := fmt.Sprintf("/%c", 'a'+c.rng.IntN(4))
	for range c.rng.IntN(3) {
		path += fmt.Sprintf("/%c", 'a'+c.rng.IntN(3))
	}
	return path
}

func (c *crashClient) write() zkproto.MultiOp {
	o := zkproto.MultiOp{Path: c.path(), ACL: openACL, Version: int32(c.rng.IntN(4)) - 1}
	switch c.rng.IntN(5) {
	case 0: // null
	case 1:
		o.Data = []byte{}
	default:
		o.Data = []byte(strings.Repeat(fmt.Sprint(c.rng.Uint32()), c.rng.IntN(300)))
	}
	if c.rng.IntN(100) == 0 {
		o.Data = make([]byte, c.rng.IntN(60_000)) // more than a journal reserves
	}
	switch c.rng.IntN(10) {
	case 0:
		o.ACL = []zkproto.ACL{{Perms: int32(c.rng.IntN(32)), Scheme: "world", ID: "anyone"}, {Perms: zkproto.PermAll, Scheme: "auth"}}
	case 1:
		o.ACL = []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "digest", ID: everybody[0].ID}}
	}
	switch k := c.rng.IntN(14); {
	case k < 5:
		o.Op = []zkproto.Op{zkproto.OpCreate, zkproto.OpCreate2}[c.rng.IntN(2)]
		o.Flags = int32(c.rng.IntN(4))
	case k < 6:
		o.Op, o.Flags = zkproto.OpCreateContainer, zkproto.FlagContainer
	case k < 7:
		o.Op, o.Flags, o.TTL = zkproto.OpCreateTTL, zkproto.FlagTTL+int32(c.rng.IntN(2)), []int64{1, 50, 3_600_000}[c.rng.IntN(3)]
	case k < 10:
		o.Op = zkproto.OpDelete
	case k < 11:
		o.Op = zkproto.OpSetACL
	default:
		o.Op = zkproto.OpSetData
	}
	return o
}

// hear reads the answer to e and records it.
func (c *crashClient) hear(e *entry) {
	body := c.receive()
	var h zkproto.ReplyHeader
	h.Decode(body)
	e.zxid, e.code = h.Zxid, h.Err
	var stats []zkproto.Stat
	if h.Err == zkproto.CodeOK {
		switch e.op {
		case zkproto.OpCreate:
			e.path = body.String()
		case zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
			var m zkproto.Create2Response
			m.Decode(body)
			e.path, stats = m.Path, []zkproto.Stat{m.Stat}
		case zkproto.OpExists, zkproto.OpSetData, zkproto.OpSetACL:
			var m zkproto.StatResponse
			m.Decode(body)
			stats = []zkproto.Stat{m.Stat}
		case zkproto.OpGetData:
			var m zkproto.GetDataResponse
			m.Decode(body)
			stats = []zkproto.Stat{m.Stat}
		case zkproto.OpMulti:
			var m zkproto.MultiResponse
			m.Decode(body)
			e.results = m.Results
		}
	}
	if err := body.Err(); err != nil {
		c.r.fail("answer to %v: %v", e.op, err)
	}
	c.r.saw(h.Zxid, stats...)
	if isWrite(e.op) || e.op == zkproto.OpCloseSession {
		c.r.note(*e)
	}
}
