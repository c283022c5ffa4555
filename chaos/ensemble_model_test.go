package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zk/admin"
	"holdfast/zkproto"
)

// These tests check the model of an ensemble: does it behave as Apache's servers were seen to
// (RELIABILITY.md §0 and its addenda, PROTOCOL.md §2 and §4)?

// A modelTest has an ensemble and its clients.
type modelTest struct {
	*testing.T
	*manyServers
	closed []func()
}

// onEnsemble runs f with an ensemble that has a leader.
func onEnsemble(t *testing.T, tick time.Duration, voters, observers int, f func(m *modelTest)) {
	t.Helper()
	onSeededEnsemble(t, 1, tick, voters, observers, f)
}

func onSeededEnsemble(t *testing.T, seed uint64, tick time.Duration, voters, observers int, f func(m *modelTest)) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(seed, tick, voters, observers)
		m := &modelTest{T: t, manyServers: &manyServers{ensemble: e, net: newNetwork(seed, 50, voters+observers)}}
		e.tell = func(format string, args ...any) {
			t.Logf("%12v %s", e.now(), fmt.Sprintf(format, args...))
		}
		m.start()
		defer func() {
			for _, c := range m.closed {
				c()
			}
			m.close()
		}()
		m.until("a leader", func() bool { return m.leader() != nil })
		f(m)
	})
}

// until waits for something that the ensemble does on its own.
func (m *modelTest) until(what string, is func() bool) {
	m.Helper()
	for range 100_000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	m.Fatalf("not within 100 s: %s", what)
}

// follower returns a server that serves and does not lead.
func (m *modelTest) follower() *server {
	var found *server
	m.until("a follower", func() bool {
		for _, s := range m.all() {
			if m.asks(func() bool { return s.serving && s.leading == nil && !s.observer }) {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// asks evaluates what between two events.
func (m *modelTest) asks(what func() bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return what()
}

// cutOff stalls all links between a server and the others, or heals them.
func (m *modelTest) cutOff(s *server, held bool) {
	for _, o := range m.all() {
		if o != s {
			m.hold(s, o, held)
			m.hold(o, s, held)
		}
	}
}

// dial makes a client of a single server.
func (m *modelTest) dial(s *server, timeout time.Duration, mode zk.LeaseMode) *zk.Client {
	m.Helper()
	ln := m.lineTo(s)
	c, err := zk.Dial(m.Context(), zk.Config{Servers: []string{"one:2181"}, Dial: ln.dial, SessionTimeout: timeout, TickTime: m.tick, Lease: mode})
	if err != nil {
		m.Fatal(err)
	}
	m.closed = append(m.closed, func() { c.Close() })
	return c
}

func (m *modelTest) lineTo(s *server) *line {
	ln := m.net.lines[0]
	m.net.lines = m.net.lines[1:]
	ln.region, ln.servers = near, []int{s.id - 1}
	return ln
}

// A rawConn is a connection without a client's logic.
type rawConn struct {
	m      *modelTest
	nc     net.Conn
	resp   zkproto.ConnectResponse
	events []zkproto.WatcherEvent
	xid    int32
}

// connect opens a rawConn. Session 0 asks for a new session. ok is false if the server hangs up.
func (m *modelTest) connect(s *server, timeout time.Duration, session int64, passwd []byte, seen int64) (*rawConn, bool) {
	m.Helper()
	nc, err := m.lineTo(s).dial(m.Context(), "", "one")
	if err != nil {
		m.Fatal(err)
	}
	c := &rawConn{m: m, nc: nc}
	m.closed = append(m.closed, func() { nc.Close() })
	if passwd == nil {
		passwd = make([]byte, 16)
	}
	req := zkproto.ConnectRequest{Timeout: int32(timeout.Milliseconds()), SessionID: session, Passwd: passwd, LastZxidSeen: seen, HasReadOnly: true}
	c.send(req.Append(zkproto.BeginFrame(nil)))
	frame, err := zkproto.ReadFrame(nc, nil, 1<<20)
	if err != nil {
		return nil, false
	}
	c.resp.Decode(zkproto.NewReader(frame))
	return c, true
}

func (c *rawConn) send(frame []byte) { c.nc.Write(zkproto.EndFrame(frame, 0)) }

// ask sends a request without waiting.
func (c *rawConn) ask(op zkproto.Op, body interface{ Append([]byte) []byte }) {
	c.xid++
	c.send(body.Append((&zkproto.RequestHeader{Xid: c.xid, Op: op}).Append(zkproto.BeginFrame(nil))))
}

// hear reads the answer to a request. ok is false if the connection ended.
func (c *rawConn) hear() (h zkproto.ReplyHeader, r *zkproto.Reader, ok bool) {
	for {
		frame, err := zkproto.ReadFrame(c.nc, nil, 1<<20)
		if err != nil {
			return h, nil, false
		}
		r = zkproto.NewReader(frame)
		h.Decode(r)
		if h.Xid != zkproto.XidNotification {
			return h, r, true
		}
		var ev zkproto.WatcherEvent
		ev.Decode(r)
		c.events = append(c.events, ev)
	}
}

func (c *rawConn) create(path string, flags int32) {
	c.ask(zkproto.OpCreate2, &zkproto.CreateRequest{Path: path, ACL: anyone, Data: []byte("x"), Flags: flags})
}

func TestEnsembleAgreesAndSurvivesItsLeaders(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 1, func(m *modelTest) {
		t := m.T
		ctx := t.Context()
		made := 0
		for round := range 6 {
			m.until("all serve", func() bool {
				return m.asks(func() bool {
					for _, s := range m.servers {
						if !s.serving {
							return false
						}
					}
					return true
				})
			})
			// Write through every server, and read at every other.
			for _, s := range m.all() {
				c := m.dial(s, 5*time.Second, zk.LeasePing)
				if _, _, err := c.Create(ctx, fmt.Sprintf("/n%d", made), nil, zk.Persistent); err != nil {
					t.Fatal(err)
				}
				made++
				c.Close()
			}
			old := m.leader()
			if round%2 == 0 {
				m.killServer(old)
			} else {
				m.cutOff(old, true)
			}
			m.until("another leader", func() bool { l := m.leader(); return l != nil && l != old })
			time.Sleep(20 * m.tick)
			if round%2 == 0 {
				m.startServer(old)
			} else {
				m.cutOff(old, false)
			}
		}
		time.Sleep(10 * time.Second)
		for _, s := range m.all() {
			m.asks(func() bool {
				for i := range made {
					if s.data.nodes[fmt.Sprintf("/n%d", i)] == nil {
						t.Errorf("server %d has lost /n%d", s.id, i)
					}
				}
				if s.data.zxid>>32 < 5 {
					t.Errorf("server %d is in epoch %d after six leaders; want 5 at least", s.id, s.data.zxid>>32)
				}
				return true
			})
		}
	})
}

// Measured on 3.8.0 with sessions of 6 s, a tick of 2 s and a syncLimit of 5: a holder's follower
// was cut off. The ensemble deleted the holder's node 6.4 s after the cut. The holder got answers to
// pings and reads up to 9.5 s after it.
func TestFollowerThatIsCutOffServesOn(t *testing.T) {
	onEnsemble(t, 2*time.Second, 3, 0, func(m *modelTest) {
		t := m.T
		ctx := t.Context()
		f := m.follower()
		holder := m.dial(f, 6*time.Second, zk.LeasePing)
		other := m.dial(m.leader(), 6*time.Second, zk.LeasePing)
		if _, _, err := holder.Create(ctx, "/held", nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second)
		cut := time.Now()
		m.cutOff(f, true)
		var deleted, served time.Duration
		for time.Since(cut) < 12*time.Second {
			time.Sleep(20 * time.Millisecond)
			if _, ok, err := other.Exists(ctx, "/held"); err == nil && !ok && deleted == 0 {
				deleted = time.Since(cut)
			}
			soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			if _, ok, err := holder.Exists(soon, "/held"); err == nil && ok {
				served = time.Since(cut)
			}
			cancel()
		}
		t.Logf("deleted after %v, served until %v", deleted, served)
		if deleted < 4*time.Second || deleted > 8*time.Second {
			t.Errorf("the node was deleted %v after the cut; want 4 to 8 s", deleted)
		}
		if served < 8*time.Second || served > 10*time.Second {
			t.Errorf("the follower served until %v after the cut; want 5 ticks of 2 s, at most one ping earlier", served)
		}
	})
}

// A write that a follower forwards does not touch its session at the leader.
func TestForwardedWritesTouchNothing(t *testing.T) {
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader hears answers to its pings: %v", heard), func(t *testing.T) {
			onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
				t := m.T
				m.syncLimit = 20
				f, l := m.follower(), m.leader()
				c, _ := m.connect(f, 4*time.Second, 0, nil, 0)
				m.hold(l, f, !heard) // then no ping and no commit reaches the follower
				began := time.Now()
				for i := 0; time.Since(began) < 8*time.Second && m.tracks(c.resp.SessionID); i++ {
					c.create(fmt.Sprintf("/n%d", i), zkproto.FlagPersistent)
					time.Sleep(100 * time.Millisecond)
				}
				lived := time.Since(began)
				m.asks(func() bool {
					if l.data.nodes["/n30"] == nil {
						t.Error("no write reaches the leader")
					}
					return true
				})
				if alive := m.tracks(c.resp.SessionID); alive != heard || !heard && (lived < 3400*time.Millisecond || lived > 4600*time.Millisecond) {
					t.Errorf("after %v of writes the session lives: %v; want %v", lived, alive, heard)
				}
			})
		})
	}
}

// tracks reports whether the leader has a session that is not about to end.
func (m *modelTest) tracks(session int64) bool {
	l := m.leader()
	return m.asks(func() bool {
		t := l.leading.sessions[session]
		return t != nil && !t.closing
	})
}

func TestSessionExpiresAtATick(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		for range 10 {
			c, _ := m.connect(m.leader(), 2*time.Second, 0, nil, 0)
			c.create("/e", zkproto.FlagEphemeral)
			heard := time.Now()
			c.hear()
			created := m.asks(func() bool { return m.leaderLocked().data.nodes["/e"] != nil })
			m.until("the end of the session", func() bool { return !m.tracks(c.resp.SessionID) })
			// The session and its nodes end at one zxid.
			m.until("the end of its node", func() bool {
				return m.asks(func() bool {
					d := m.leaderLocked().data
					_, session := d.sessions[c.resp.SessionID]
					if (d.nodes["/e"] != nil) != session {
						t.Error("the session and its node do not end together")
					}
					return !session
				})
			})
			if lived := time.Since(heard); !created || lived < 2*time.Second || lived > 2600*time.Millisecond {
				t.Errorf("the session lived for %v", lived)
			}
		}
	})
}

// A session that moved to another server can no longer write through the first. A wrong password or
// an unknown session is refused.
func TestSessionMoves(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		for i, to := range m.all() {
			from := m.all()[(i+1)%3]
			c, ok := m.connect(from, 4*time.Second, 0, nil, 0)
			if !ok || c.resp.SessionID == 0 || c.resp.Timeout != 4000 {
				t.Fatalf("a new session: %+v", c.resp)
			}
			if bad, ok := m.connect(to, 4*time.Second, c.resp.SessionID, bytes.Repeat([]byte{7}, 16), 0); !ok || bad.resp.Timeout != 0 || bad.resp.SessionID != 0 {
				t.Errorf("with a wrong password: %+v; want a refusal", bad)
			}
			if bad, ok := m.connect(to, 4*time.Second, c.resp.SessionID+1, c.resp.Passwd, 0); !ok || bad.resp.Timeout != 0 {
				t.Errorf("an unknown session: %+v; want a refusal", bad)
			}
			if _, ok := m.connect(to, 4*time.Second, c.resp.SessionID, c.resp.Passwd, 1<<40); ok {
				t.Error("a client with a newer zxid than the server's was admitted")
			}
			c.create(fmt.Sprintf("/a%d", i), zkproto.FlagEphemeral)
			if h, _, ok := c.hear(); !ok || h.Err != zkproto.CodeOK {
				t.Fatalf("create: %+v, %v", h, ok)
			}
			d, ok := m.connect(to, 4*time.Second, c.resp.SessionID, c.resp.Passwd, 0)
			if !ok || d.resp.SessionID != c.resp.SessionID {
				t.Fatalf("resumed: %+v, %v", d, ok)
			}
			c.create(fmt.Sprintf("/b%d", i), zkproto.FlagEphemeral)
			if _, _, ok := c.hear(); ok {
				t.Error("the first connection was answered after the session moved")
			}
			d.create(fmt.Sprintf("/c%d", i), zkproto.FlagEphemeral)
			if h, _, ok := d.hear(); !ok || h.Err != zkproto.CodeOK {
				t.Errorf("the second connection: %+v, %v", h, ok)
			}
			m.asks(func() bool {
				nodes := m.leaderLocked().data.nodes
				if nodes[fmt.Sprintf("/a%d", i)] == nil || nodes[fmt.Sprintf("/b%d", i)] != nil || nodes[fmt.Sprintf("/c%d", i)] == nil {
					t.Error("want the first and the third of three nodes, and not the second")
				}
				return true
			})
		}
	})
}

// A follower answers reads on its own, and they may be stale; a sync is not.
func TestFollowerIsBehind(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		ctx := t.Context()
		f, l := m.follower(), m.leader()
		reader, writer := m.dial(f, 4*time.Second, zk.LeasePing), m.dial(l, 4*time.Second, zk.LeasePing)
		m.hold(l, f, true)
		if _, _, err := writer.Create(ctx, "/new", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := reader.Exists(ctx, "/new"); ok || err != nil {
			t.Errorf("behind a stalled link, the follower shows the node: %v, %v", ok, err)
		}
		time.AfterFunc(time.Second, func() { m.hold(l, f, false) })
		began := time.Now()
		if err := reader.Sync(ctx, "/new"); err != nil || time.Since(began) < time.Second {
			t.Errorf("sync: %v after %v", err, time.Since(began))
		}
		if _, ok, err := reader.Exists(ctx, "/new"); !ok || err != nil {
			t.Errorf("after a sync, the follower does not show the node: %v, %v", ok, err)
		}
	})
}

// A leader that hears nothing from its followers goes on for up to syncLimit ticks and one more. A new
// leader restarts the clocks of all sessions.
func TestLeaderChange(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		ctx := t.Context()
		old := m.leader()
		idle, _ := m.connect(m.follower(), 5*time.Second, 0, nil, 0)
		atOld := m.dial(old, 5*time.Second, zk.LeasePing)
		idle.nc.Close()
		time.Sleep(2500 * time.Millisecond)
		m.cutOff(old, true)
		cut := time.Now()
		var answered time.Duration
		for time.Since(cut) < 5*time.Second {
			soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			if _, _, err := atOld.Exists(soon, "/"); err == nil {
				answered = time.Since(cut)
			}
			cancel()
			time.Sleep(10 * time.Millisecond)
		}
		if answered < 2*time.Second || answered > 3500*time.Millisecond {
			t.Errorf("the deposed leader answered for %v; want 5 or 6 ticks of 500 ms", answered)
		}
		m.until("another leader", func() bool { l := m.leader(); return l != nil && l != old })
		var since time.Duration
		m.asks(func() bool { since = m.now() - m.leaderLocked().since; return true })
		began := time.Now()
		m.until("the end of the idle session", func() bool { return !m.tracks(idle.resp.SessionID) })
		if lived := since + time.Since(began); lived < 5*time.Second || lived > 6500*time.Millisecond {
			t.Errorf("the session lived for %v after the election; want a whole timeout", lived)
		}
		m.cutOff(old, false)
		m.until("the old leader follows", func() bool { return m.asks(func() bool { return old.serving && old.leading == nil }) })
	})
}

// A proposal that no follower has is undone when the leader is deposed.
func TestUncommittedWriteOfADeposedLeaderIsUndone(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		old := m.leader()
		c, _ := m.connect(old, 5*time.Second, 0, nil, 0)
		m.cutOff(old, true)
		c.create("/lost", zkproto.FlagPersistent)
		if _, _, ok := c.hear(); ok {
			t.Error("the uncommitted write was answered")
		}
		if !m.asks(func() bool { return len(old.log) > old.committed }) {
			t.Fatal("nothing was proposed")
		}
		m.killServer(old)
		m.startServer(old) // the server applies its whole log
		m.until("another leader", func() bool { l := m.leader(); return l != nil && l != old })
		m.cutOff(old, false)
		m.until("the old leader follows", func() bool { return m.asks(func() bool { return old.serving }) })
		m.asks(func() bool {
			if old.data.nodes["/lost"] != nil {
				t.Error("the undone write is back")
			}
			return true
		})
	})
}

func TestEnsembleOfOneTellsOfNoOthers(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 1, 0, func(m *modelTest) {
		t := m.T
		ctx := t.Context()
		alone := m.all()[0]
		c := m.dial(alone, 4*time.Second, zk.LeaseAuto)
		if data, _, err := c.Get(ctx, configPath); err != nil || len(data) > 0 {
			t.Errorf("config: %q, %v", data, err)
		}
		if _, _, err := c.Create(ctx, "/mine", nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		session, err := c.Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.killServer(alone)
		m.net.mu.Lock()
		m.net.hosts = append(m.net.hosts, nil, nil)
		m.net.mu.Unlock()
		m.grow(3)
		m.start()
		m.until("a leader", func() bool { return m.leader() != nil })
		if data, _, err := c.Get(ctx, configPath); err != nil || !bytes.Contains(data, []byte("server.3=")) {
			t.Errorf("config: %q, %v", data, err)
		}
		if _, stat, err := c.Get(ctx, "/mine"); err != nil || stat.EphemeralOwner != session.ID() {
			t.Errorf("the node from before: %+v, %v", stat, err)
		}
	})
}

func TestEnsembleDoesWhatClientsAsk(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		m.reapEvery = 2 * time.Second
		ctx := t.Context()
		c := m.dial(m.follower(), 4*time.Second, zk.LeaseAuto)
		check := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v; want %v", what, err, want)
			}
		}
		_, _, err := c.Create(ctx, "/a/b", nil, zk.Persistent)
		check("create without a parent", err, zk.ErrNoNode)
		_, _, err = c.Create(ctx, "/c", nil, zk.Container)
		check("create a container", err, nil)
		_, _, err = c.Create(ctx, "/c", nil, zk.Container)
		check("again", err, zk.ErrNodeExists)
		path, stat, err := c.Create(ctx, "/c/n-", []byte("1"), zk.EphemeralSequential)
		check("create in sequence", err, nil)
		if path != "/c/n-0000000000" || stat.Czxid == 0 || stat.EphemeralOwner == 0 || stat.Ctime == 0 {
			t.Errorf("made %s, %+v", path, stat)
		}
		_, _, err = c.Create(ctx, path+"/below", nil, zk.Persistent)
		check("create below an ephemeral node", err, zk.ErrNoChildrenForEphemerals)
		_, err = c.Set(ctx, path, []byte("2"), 3)
		check("set of another version", err, zk.ErrBadVersion)
		res, err := c.Multi(ctx, zk.CheckOp(path, 0), zk.SetOp(path, []byte("3"), 0), zk.DeleteOp("/none", -1), zk.CreateOp("/d", nil, zk.Persistent))
		check("a transaction that fails", err, zk.ErrNoNode)
		if len(res) != 4 || !errors.Is(res[2].Err, zk.ErrNoNode) || !errors.Is(res[3].Err, zk.ErrNotTried) || res[0].Err != nil {
			t.Errorf("its results: %+v", res)
		}
		data, before, watch, err := c.GetW(ctx, path)
		check("get", err, nil)
		if string(data) != "1" || before.Version != 0 {
			t.Errorf("after a transaction that failed: %q, %+v", data, before)
		}
		_, err = c.Multi(ctx, zk.CheckOp(path, 0), zk.SetOp(path, []byte("4"), 0))
		check("a transaction", err, nil)
		if ev := <-watch.C; ev.Type != zk.EventNodeDataChanged || ev.Path != path {
			t.Errorf("event %+v", ev)
		}
		all, err := c.AddWatch(ctx, "/c", zk.WatchPersistentRecursive)
		check("add watch", err, nil)
		check("delete", c.Delete(ctx, path, -1), nil)
		check("delete again", c.Delete(ctx, path, -1), zk.ErrNoNode)
		if ev := <-all.C; ev.Type != zk.EventNodeDeleted || ev.Path != path {
			t.Errorf("event %+v", ev)
		}
		if ev := <-all.C; ev.Type != zk.EventNodeDeleted || ev.Path != "/c" {
			t.Errorf("the container: %+v", ev)
		}
		all.Stop()
		_, err = c.MultiRead(ctx, zk.GetOp("/"), zk.ChildrenOp("/"))
		check("multi read", err, nil)
		_, err = admin.WhoAmI(ctx, c)
		check("who am I", err, nil)
		if _, _, watches := m.counts(); watches != 0 {
			t.Errorf("%d watches are left: %s", watches, m.watchers())
		}
	})
}

// On a new connection, watches report changes that the client missed.
func TestEnsembleTellsWhatWasMissed(t *testing.T) {
	onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
		t := m.T
		ctx := t.Context()
		ln := m.lineTo(m.follower())
		c, err := zk.Dial(ctx, zk.Config{Servers: []string{"one:2181"}, Dial: ln.dial, SessionTimeout: 5 * time.Second, Lease: zk.LeasePing})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		other := m.dial(m.leader(), 5*time.Second, zk.LeasePing)
		watches := make(map[string]*zk.Watch)
		for _, name := range []string{"deleted", "changed", "child", "same"} {
			if _, _, err := c.Create(ctx, "/"+name, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
			if name == "child" {
				_, _, watches[name], err = c.ChildrenW(ctx, "/"+name)
			} else {
				_, _, watches[name], err = c.GetW(ctx, "/"+name)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, _, watches["made"], err = c.ExistsW(ctx, "/made"); err != nil {
			t.Fatal(err)
		}
		ln.set(func(ln *line) { ln.cut = cut{true, true} })
		ln.breakAll(true)
		for _, err := range []error{
			other.Delete(ctx, "/deleted", -1),
			func() error { _, err := other.Set(ctx, "/changed", nil, -1); return err }(),
			func() error { _, _, err := other.Create(ctx, "/child/c", nil, zk.Persistent); return err }(),
			func() error { _, _, err := other.Create(ctx, "/made", nil, zk.Persistent); return err }(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		ln.set(func(ln *line) { ln.cut = cut{} })
		for name, want := range map[string]zk.EventType{
			"deleted": zk.EventNodeDeleted, "changed": zk.EventNodeDataChanged, "child": zk.EventNodeChildrenChanged, "made": zk.EventNodeCreated,
		} {
			if ev := <-watches[name].C; ev.Type != want || !ev.CatchUp {
				t.Errorf("%s: %+v", name, ev)
			}
		}
		select {
		case ev := <-watches["same"].C:
			t.Errorf("event %+v for a node that has not changed", ev)
		default:
		}
	})
}

// A session writes through another server. If a follower has a write of the same session with the same
// number, it takes the other server's commit for its own write's (CommitProcessor.run). Seen on
// 3.8.0, with these answers.
func TestFollowerTakesOneCommitForAnother(t *testing.T) {
	for _, tt := range []struct {
		name string
		xid  int32
		ask  func(c *rawConn)
		want string
	}{
		{"create", 1, func(c *rawConn) { c.create("/own", zkproto.FlagPersistent) }, "ok /other"},
		{"create with another number", 7, func(c *rawConn) { c.create("/own", zkproto.FlagPersistent) }, "ok /own"},
		{"transaction", 1, func(c *rawConn) {
			c.ask(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/", Version: -1}}})
		}, "the server could not decode the request "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEnsemble(t, 500*time.Millisecond, 3, 0, func(m *modelTest) {
				m.syncLimit = 20
				l := m.leader()
				i := slices.Index(m.all(), l)
				f, g := m.all()[(i+1)%3], m.all()[(i+2)%3]
				a, _ := m.connect(f, 8*time.Second, 0, nil, 0)
				m.hold(l, f, true)
				m.hold(l, g, true)
				a.create("/other", zkproto.FlagPersistent)
				time.Sleep(100 * time.Millisecond)
				// The leader has proposed the write. The session moves to g before it is committed there.
				time.AfterFunc(100*time.Millisecond, func() {
					m.hold(g, l, true)
					m.hold(l, g, false)
				})
				b, ok := m.connect(g, 8*time.Second, a.resp.SessionID, a.resp.Passwd, 0)
				if !ok {
					m.Fatal("not resumed")
				}
				b.xid = tt.xid - 1
				tt.ask(b)
				time.Sleep(100 * time.Millisecond)
				m.hold(g, l, false)
				h, r, ok := b.hear()
				if !ok {
					m.Fatal("no answer")
				}
				got := h.Err.Error() + " "
				if h.Err == zkproto.CodeOK {
					got += r.String()
				}
				if got != tt.want {
					m.Errorf("answered %q; want %q", got, tt.want)
				}
			})
		})
	}
}
