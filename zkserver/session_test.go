package zkserver

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// inBubble runs f with a server in memory on fake time. dial connects to it.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, s *Server, dial func() *rawClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(t, s, func() *rawClient {
			client, server := net.Pipe()
			s.accept(server)
			return newRaw(t, client)
		})
	})
}

func TestSessionExpiresWithinATickOfItsTimeout(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		watcher := dial()
		watcher.connect(40*time.Second, nil)
		c := dial()
		session := c.connect(10*time.Second, nil)
		c.create("/e1", zkproto.FlagEphemeral)
		c.create("/e2", zkproto.FlagEphemeral)
		time.Sleep(9 * time.Second)
		c.call(zkproto.OpPing, nil) // the timeout starts here
		touched := time.Now()
		watcher.exists("/e1", true)
		watcher.exists("/e2", true)
		if e := watcher.event(); e.Type != zkproto.EventNodeDeleted || e.Path != "/e1" {
			t.Errorf("event %+v", e)
		}
		if silent := time.Since(touched); silent < 10*time.Second || silent > 12*time.Second {
			t.Errorf("expired after %v; want 10s to 12s", silent)
		}
		watcher.event()
		c.closed()
		if stat, code := watcher.exists("/", false); code != zkproto.CodeOK || stat.NumChildren != 1 {
			t.Errorf("the root after the expiry: %+v, %v", stat, code)
		}
		if r := dial().connect(10*time.Second, session); r.Timeout != 0 || r.SessionID != 0 {
			t.Errorf("an expired session was resumed: %+v", r)
		}
	})
}

func TestExpiryIsOneTransaction(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		id := c.connect(10*time.Second, nil).SessionID
		c.create("/a", zkproto.FlagPersistent)
		c.create("/b", zkproto.FlagPersistent)
		c.create("/a/e", zkproto.FlagEphemeral)
		last := c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/b/e", ACL: openACL, Flags: zkproto.FlagEphemeral}).Zxid
		if !s.ExpireSession(id) {
			t.Fatal("ExpireSession knows no such session")
		}
		if s.ExpireSession(id) {
			t.Error("ExpireSession found the session again")
		}
		c = dial()
		c.connect(10*time.Second, nil)
		a, _ := c.exists("/a", false)
		b, _ := c.exists("/b", false)
		if a.NumChildren+b.NumChildren != 0 || a.Pzxid != last+1 || b.Pzxid != last+1 {
			t.Errorf("after the expiry: %+v, %+v; want both without children since 0x%x", a, b, last+1)
		}
	})
}

func TestRequestsKeepASessionAlive(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		session := c.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		for i := range 20 {
			time.Sleep(9 * time.Second)
			switch i % 3 {
			case 0:
				c.call(zkproto.OpPing, nil)
			case 1:
				c.exists("/none", false)
			case 2: // the connection breaks, and the client reconnects
				c.nc.Close()
				c = dial()
				if r := c.connect(10*time.Second, session); r.SessionID != session.SessionID {
					t.Fatalf("round %d: not resumed", i)
				}
			}
		}
		if _, code := c.exists("/e", false); code != zkproto.CodeOK {
			t.Errorf("/e: %v", code)
		}
	})
}

func TestTimeoutIsClamped(t *testing.T) {
	for _, tt := range []struct {
		cfg       Config
		ask, want time.Duration
	}{
		{Config{}, 10 * time.Second, 10 * time.Second},
		{Config{}, time.Millisecond, 4 * time.Second},
		{Config{}, -5 * time.Millisecond, 4 * time.Second},
		{Config{}, 100 * time.Hour, 40 * time.Second},
		{Config{TickTime: time.Second}, 0, 2 * time.Second},
		{Config{MinSessionTimeout: time.Second, MaxSessionTimeout: 3 * time.Second}, 5 * time.Second, 3 * time.Second},
	} {
		inBubble(t, tt.cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
			r := dial().connect(tt.ask, nil)
			if got := time.Duration(r.Timeout) * time.Millisecond; got != tt.want {
				t.Errorf("asked for %v, got %v; want %v", tt.ask, got, tt.want)
			}
		})
	}
}

func TestReconnectMovesTheSession(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		older := dial()
		session := older.connect(10*time.Second, nil)
		older.exists("/n", true)
		newer := dial()
		if r := newer.connect(20*time.Second, session); r.SessionID != session.SessionID || r.Timeout != 20000 {
			t.Fatalf("not resumed: %+v", r)
		}
		older.closed()
		newer.create("/n", zkproto.FlagPersistent)
		newer.exists("/n", false) // no event came first: watches end with their connection
		// The server learns of the end of the older connection. That must not affect the session.
		synctest.Wait()
		s.ExpireSession(session.SessionID)
		newer.closed()
	})
}

// A client that guesses an id must not disconnect the session's own client.
func TestWrongPasswordHarmsNobody(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		session := c.connect(10*time.Second, nil)
		for _, passwd := range [][]byte{nil, {}, make([]byte, 16), append(session.Passwd[:15:15], session.Passwd[15]^1), append(session.Passwd[:16:16], 0)} {
			thief := dial()
			r := thief.connect(10*time.Second, &zkproto.ConnectResponse{SessionID: session.SessionID, Passwd: passwd})
			if r.Timeout != 0 || r.SessionID != 0 || len(r.Passwd) != 16 || r.Passwd[0] != 0 {
				t.Errorf("password %x: got %+v; want an expired session", passwd, r)
			}
			thief.closed()
		}
		if a := c.call(zkproto.OpPing, nil); a.Err != zkproto.CodeOK {
			t.Errorf("the owner's ping: %v", a.Err)
		}
	})
}

// Apache's server derives the password from the session's id with java.util.Random, so anybody who
// knows the id knows the password (SessionTrackerImpl, ZooKeeperServer.generatePasswd). Ours does
// not.
func TestASessionsPasswordDoesNotFollowFromItsID(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		session := dial().connect(10*time.Second, nil)
		for delta := int64(-1000); delta <= 1000; delta++ {
			if bytes.Equal(javaPassword(session.SessionID+delta), session.Passwd) {
				t.Errorf("the password is Java's for the id %+d", delta)
			}
		}
		other := dial().connect(10*time.Second, nil)
		thief := dial()
		if r := thief.connect(10*time.Second, &zkproto.ConnectResponse{SessionID: session.SessionID, Passwd: other.Passwd}); r.Timeout != 0 {
			t.Error("one session's password opens another")
		}
	})
}

// javaPassword returns the password that Apache's server gives to the session with this id.
func javaPassword(id int64) []byte {
	const mask = 1<<48 - 1
	seed := (uint64(id^0xB3415C00) ^ 0x5DEECE66D) & mask // Random.setSeed
	var p []byte
	for len(p) < 16 { // Random.nextBytes
		seed = (seed*0x5DEECE66D + 0xB) & mask
		p = binary.LittleEndian.AppendUint32(p, uint32(seed>>16))
	}
	return p
}

func TestReadOnlyByteIsEchoedOnlyIfSent(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		for has, length := range map[bool]int{true: 37, false: 36} {
			c := dial()
			c.sendFrame(&zkproto.ConnectRequest{Passwd: make([]byte, 16), HasReadOnly: has})
			if got := len(c.readFrame()); got != length {
				t.Errorf("with the byte %v: response of %d bytes; want %d", has, got, length)
			}
		}
	})
}

func TestClientFromTheFutureIsTurnedAway(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.sendFrame(&zkproto.ConnectRequest{LastZxidSeen: 1 << 62, Passwd: make([]byte, 16)})
		c.closed()
	})
}

func TestHandshakeHasADeadline(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.nc.Write([]byte{0, 0})
		start := time.Now()
		if _, err := c.in.ReadByte(); err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("closed after %v, %v; want 10s", time.Since(start), err)
		}
	})
}

func TestCloseSessionRemovesEphemeralsAndAnswers(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		session := c.connect(10*time.Second, nil)
		other.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		other.exists("/e", true)
		if a := c.call(zkproto.OpCloseSession, nil); a.Err != zkproto.CodeOK {
			t.Errorf("closeSession: %v", a.Err)
		}
		c.closed()
		if e := other.event(); e.Type != zkproto.EventNodeDeleted || e.Path != "/e" {
			t.Errorf("event %+v", e)
		}
		if r := dial().connect(10*time.Second, session); r.SessionID != 0 {
			t.Errorf("a closed session was resumed: %+v", r)
		}
	})
}

func TestContainersAreReaped(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for _, path := range []string{"/used", "/unused"} {
			a := c.call(zkproto.OpCreateContainer, &zkproto.CreateRequest{Path: path, ACL: openACL, Flags: zkproto.FlagContainer})
			if a.Err != zkproto.CodeOK {
				t.Fatal(a.Err)
			}
		}
		c.create("/used/x", zkproto.FlagPersistent)
		c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/used/x", Version: -1})
		for range 14 {
			time.Sleep(5 * time.Second)
			c.call(zkproto.OpPing, nil)
		}
		if _, code := c.exists("/used", false); code != zkproto.CodeNoNode {
			t.Errorf("/used: %v; want it reaped", code)
		}
		if _, code := c.exists("/unused", false); code != zkproto.CodeOK {
			t.Errorf("/unused: %v", code)
		}
	})
}

func TestLingerEndsAnIdleServer(t *testing.T) {
	const linger = 5 * time.Second
	for _, test := range []struct {
		name    string
		timeout time.Duration // session timeout; 0 is no session
		ends    bool          // the client closes its session
		least   time.Duration // time from the end of the last connection
	}{
		{"without a session", 0, false, linger},
		{"a session that was closed", 40 * time.Second, true, linger},
		{"a session that goes on", 40 * time.Second, false, 40 * time.Second},
		{"a session shorter than the linger time", 4 * time.Second, false, linger},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := NewMemory()
			inBubble(t, Config{Memory: m, Linger: linger}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				if test.timeout > 0 {
					c.connect(test.timeout, nil)
					c.create("/e", zkproto.FlagEphemeral)
					for range 10 {
						time.Sleep(3 * time.Second)
						c.call(zkproto.OpPing, nil) // still served, since a client is connected
					}
				}
				if test.ends {
					c.call(zkproto.OpCloseSession, nil)
				}
				c.nc.Close()
				left := time.Now()
				<-s.Done()
				if idle := time.Since(left); idle < test.least || idle > test.least+3*time.Second {
					t.Errorf("stopped %v after the last client left; want %v, or up to 3s more", idle, test.least)
				}
				if err := s.Err(); err != nil {
					t.Errorf("Err: %v", err)
				}
			})
			inBubble(t, Config{Memory: m}, func(t *testing.T, s *Server, dial func() *rawClient) {
				if n := s.Stats().Sessions; n != 0 {
					t.Errorf("%d sessions are left to the next server, with their full timeout", n)
				}
				c := dial()
				c.connect(10*time.Second, nil)
				if _, code := c.exists("/e", false); code != zkproto.CodeNoNode {
					t.Errorf("/e: %v; want none", code)
				}
			})
		})
	}
}

// A session in the store counts, too.
func TestLingerWaitsForTheSessionsOfAnEarlierServer(t *testing.T) {
	m := NewMemory()
	inBubble(t, Config{Memory: m}, func(t *testing.T, s *Server, dial func() *rawClient) {
		dial().connect(30*time.Second, nil)
	})
	inBubble(t, Config{Memory: m, Linger: 5 * time.Second}, func(t *testing.T, s *Server, _ func() *rawClient) {
		<-s.Done()
		if up := s.Stats().Uptime; up < 30*time.Second || up > 33*time.Second {
			t.Errorf("stopped after %v; want 30s, or up to 3s more", up)
		}
	})
}

// halfCloser is a pipe that claims to close its halves like a socket.
type halfCloser struct{ net.Conn }

func (halfCloser) CloseWrite() error { return nil }

// After its last bytes, the server reads from a client up to the end of the stream. It stops after
// a limited time, and continues beyond the client's slots.
func TestClientThatTalksOnAfterTheEndIsCutOff(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, _ func() *rawClient) {
		client, server := net.Pipe()
		s.accept(halfCloser{server})
		c := newRaw(t, client)
		c.connect(10*time.Second, nil)
		c.call(zkproto.OpCloseSession, nil)
		for range 2 * s.limits().Outstanding {
			c.send(zkproto.OpPing, nil)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := s.connections(); n != 0 {
			t.Errorf("%d connections are left; want none", n)
		}
	})
}

func TestSessionsHaveFullTimeoutAfterRestart(t *testing.T) {
	m := NewMemory()
	var session *zkproto.ConnectResponse
	inBubble(t, Config{Memory: m}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		session = c.connect(10*time.Second, nil)
		c.create("/e", zkproto.FlagEphemeral)
		time.Sleep(9 * time.Second)
	})
	inBubble(t, Config{Memory: m}, func(t *testing.T, s *Server, dial func() *rawClient) {
		time.Sleep(9 * time.Second)
		c := dial()
		if r := c.connect(10*time.Second, session); r.SessionID != session.SessionID {
			t.Fatalf("not resumed: %+v", r)
		}
		if _, code := c.exists("/e", false); code != zkproto.CodeOK {
			t.Errorf("/e: %v", code)
		}
	})
}
