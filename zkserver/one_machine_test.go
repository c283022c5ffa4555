package zkserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// onCrashFS runs f with a server on a disk that can lose power, and a client.
func onCrashFS(t *testing.T, fs *crashfs.FS, cfg Config, f func(s *Server, c *rawClient)) {
	t.Helper()
	s := startOn(t, store.OpenOn(fs, 1<<20), cfg)
	defer s.Close()
	f(s, pipe(t, s))
}

// A change that outlives its session is synced before it is answered. Other changes are not.
func TestOneMachineSyncsWhatOutlivesASession(t *testing.T) {
	multi := func(ops ...zkproto.MultiOp) *zkproto.MultiRequest { return &zkproto.MultiRequest{Ops: ops} }
	setData := func(path string) *zkproto.SetDataRequest {
		return &zkproto.SetDataRequest{Path: path, Data: []byte("y"), Version: -1}
	}
	remove := func(path string) *zkproto.DeleteRequest { return &zkproto.DeleteRequest{Path: path, Version: -1} }
	create := func(path string, flags int32) zkproto.MultiOp {
		return zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: openACL, Flags: flags}
	}
	steps := []struct {
		name    string
		op      zkproto.Op
		request message
		lasts   bool
	}{
		{"create persistent", zkproto.OpCreate, &zkproto.CreateRequest{Path: "/p", ACL: openACL}, true},
		{"create ephemeral", zkproto.OpCreate, &zkproto.CreateRequest{Path: "/p/e", ACL: openACL, Flags: zkproto.FlagEphemeral}, false},
		{"create ephemeral sequential", zkproto.OpCreate, &zkproto.CreateRequest{Path: "/p/s-", ACL: openACL, Flags: zkproto.FlagEphemeralSequential}, false},
		{"set ephemeral", zkproto.OpSetData, setData("/p/e"), false},
		{"set persistent", zkproto.OpSetData, setData("/p"), true},
		{"set the ACL of an ephemeral", zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/p/e", ACL: openACL, Version: -1}, false},
		{"set the ACL of a persistent", zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/p", ACL: openACL, Version: -1}, true},
		{"delete ephemeral", zkproto.OpDelete, remove("/p/e"), false},
		{"transaction of ephemerals", zkproto.OpMulti, multi(zkproto.MultiOp{Op: zkproto.OpDelete, Path: "/p/s-0000000001", Version: -1},
			create("/p/e2", zkproto.FlagEphemeral)), false},
		{"transaction with a persistent", zkproto.OpMulti, multi(create("/p/e3", zkproto.FlagEphemeral), create("/p/p", 0)), true},
		{"transaction that fails", zkproto.OpMulti, multi(create("/p/p2", 0), create("/p/p", 0)), false},
		{"the one behind it", zkproto.OpDelete, remove("/p/e3"), false},
		{"delete persistent", zkproto.OpDelete, remove("/p/p"), true},
	}
	for _, tt := range []struct {
		name   string
		cfg    Config
		boot   store.BootID
		listen string // network of a second listener
		all    bool   // everything is synced
	}{
		{name: "all clients are of this machine", cfg: Config{OneMachine: true}, boot: store.BootID{1}},
		{name: "they are, on another socket, too", cfg: Config{OneMachine: true}, boot: store.BootID{1}, listen: "unix"},
		{name: "some may be of another", boot: store.BootID{1}, all: true},
		{name: "some come by TCP", cfg: Config{OneMachine: true}, boot: store.BootID{1}, listen: "tcp", all: true},
		{name: "the system has no boot id", cfg: Config{OneMachine: true}, all: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := crashfs.New(nil)
				fs.BootID = tt.boot
				onCrashFS(t, fs, tt.cfg, func(s *Server, c *rawClient) {
					if tt.listen != "" {
						l := &silentListener{network: tt.listen, closed: make(chan struct{})}
						served := make(chan error)
						go func() { served <- s.Serve(l) }()
						defer func() { s.Close(); <-served }()
						synctest.Wait()
					}
					c.connect(10*time.Second, nil)
					c.create("/first", zkproto.FlagPersistent) // reserves zxids
					for _, step := range steps {
						before := len(fs.Syncs())
						if a := c.call(step.op, step.request); a.Err != zkproto.CodeOK && !strings.HasSuffix(step.name, "fails") {
							t.Fatalf("%s: %v", step.name, a.Err)
						}
						synced := len(fs.Syncs()) > before
						if want := step.lasts || tt.all && !strings.HasSuffix(step.name, "fails"); synced != want {
							t.Errorf("%s: synced: %v; want %v", step.name, synced, want)
						}
					}
				})
			})
		})
	}
}

// silentListener is a listener without clients.
type silentListener struct {
	network string
	closed  chan struct{}
}

func (l *silentListener) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l *silentListener) Addr() net.Addr            { return silentAddr(l.network) }
func (l *silentListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

type silentAddr string

func (a silentAddr) Network() string { return string(a) }
func (a silentAddr) String() string  { return "nowhere" }

// A listener for other machines first makes earlier answers durable, and then accepts.
func TestOneMachineSyncsWhatWasAnsweredBeforeOthersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(nil)
		onCrashFS(t, fs, Config{OneMachine: true}, func(s *Server, c *rawClient) {
			c.connect(10*time.Second, nil)
			c.create("/first", zkproto.FlagPersistent)
			c.create("/e", zkproto.FlagEphemeral)
			l := &silentListener{network: "tcp", closed: make(chan struct{})}
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			synctest.Wait()
			for seed := range uint64(20) {
				after := crashfs.New(fs.Image(fs.Now(), rand.New(rand.NewPCG(seed, 0))))
				after.BootID = fs.BootID
				onCrashFS(t, after, Config{}, func(_ *Server, c *rawClient) {
					c.connect(10*time.Second, nil)
					if _, code := c.exists("/e", false); code != zkproto.CodeOK {
						t.Errorf("/e: %v", code)
					}
				})
			}
			s.Close()
			<-served
		})
	})
}

// With OneMachine, a journal is full, and the disk is slow to begin the next one. The owner does
// not wait for it.
func TestOneMachineAnswersWhileAJournalBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := crashfs.New(nil)
		s := startOn(t, store.OpenOn(fs, small), Config{OneMachine: true})
		defer s.Close()
		c := pipe(t, s)
		c.connect(10*time.Second, nil)
		c.create("/first", zkproto.FlagPersistent) // reserves zxids
		slow, proceed := make(chan struct{}), make(chan struct{})
		fs.Fail = func(call crashfs.Call) (int, error) {
			if call.Op == "sync" && call.Name == "00000001.journal" {
				close(slow)
				<-proceed
			}
			return 0, nil
		}
		begun := false
		for i := 0; !begun; i++ {
			c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprint("/e", i), Data: make([]byte, 500), ACL: openACL, Flags: zkproto.FlagEphemeral})
			synctest.Wait()
			select {
			case <-slow:
				begun = true
			default:
				c.read()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Alive(ctx); err != nil {
			t.Errorf("while a journal begins: %v", err)
		}
		close(proceed)
		if a := c.read(); a.Err != zkproto.CodeOK {
			t.Errorf("the create that waited: %v", a.Err)
		}
	})
}

// An answered is what a client knows after a number of changes of the disk.
type answered struct {
	now   int
	zxid  int64
	nodes map[string]bool // the existing ones
}

// removedNext reports whether the first answer after cut says that the node is gone. Its
// removal may have been written by then.
func removedNext(history []answered, cut int, path string) bool {
	for _, a := range history {
		if a.now > cut {
			return !a.nodes[path]
		}
	}
	return false
}

// The process is killed, or power fails, at any moment. A kill loses nothing. A power failure ends
// all sessions, and loses no node that outlives its session. No zxid is reused.
func TestOneMachineKeepsWhatLasts(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			fs := crashfs.New(nil)
			var history []answered
			var session *zkproto.ConnectResponse
			onCrashFS(t, fs, Config{OneMachine: true}, func(s *Server, c *rawClient) {
				session = c.connect(10*time.Second, nil)
				nodes := make(map[string]bool)
				note := func(zxid int64) {
					copied := make(map[string]bool)
					for path := range nodes {
						copied[path] = true
					}
					history = append(history, answered{fs.Now(), zxid, copied})
				}
				for i := range 40 {
					var a answer
					path := fmt.Sprint("/p", i)
					flags := zkproto.FlagPersistent
					if rng.IntN(4) > 0 {
						path, flags = fmt.Sprint("/e", i), zkproto.FlagEphemeral
					}
					gone := fmt.Sprint([]string{"/p", "/e"}[rng.IntN(2)], rng.IntN(i+1))
					if nodes[gone] && rng.IntN(2) == 0 {
						a = c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: gone, Version: -1})
						delete(nodes, gone)
					} else {
						a = c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, ACL: openACL, Flags: flags})
						nodes[path] = true
					}
					if a.Err != zkproto.CodeOK {
						t.Fatal(a.Err)
					}
					note(a.Zxid)
				}
			})
			for range 20 {
				cut := history[0].now + rng.IntN(history[len(history)-1].now-history[0].now+1)
				var last answered
				for _, a := range history {
					if a.now <= cut {
						last = a
					}
				}
				power := rng.IntN(2) == 0
				var after *crashfs.FS
				if power {
					after = crashfs.New(fs.Image(cut, rng))
					after.BootID = store.BootID{2}
				} else {
					after = crashfs.New(fs.Killed(cut))
					after.BootID = fs.BootID
				}
				onCrashFS(t, after, Config{OneMachine: true}, func(s *Server, c *rawClient) {
					again := c.connect(10*time.Second, session)
					if resumed := again.SessionID != 0; resumed == power {
						t.Fatalf("round %d, change %d, power fails: %v; the session was resumed: %v", round, cut, power, resumed)
					}
					if power {
						c = pipe(t, s)
						c.connect(10*time.Second, nil)
					}
					for path := range last.nodes {
						ephemeral := path[1] == 'e'
						// A request after the last answer may have removed it.
						if _, code := c.exists(path, false); code != zkproto.CodeOK && !ephemeral && !removedNext(history, cut, path) {
							t.Errorf("round %d, change %d, power fails: %v: %s: %v", round, cut, power, path, code)
						} else if ephemeral && power && code != zkproto.CodeNoNode {
							t.Errorf("round %d: %s is still there: %v", round, path, code)
						} else if ephemeral && !power && code != zkproto.CodeOK && !removedNext(history, cut, path) {
							t.Errorf("round %d, change %d: %s is lost: %v", round, cut, path, code)
						}
					}
					if a := c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/new", ACL: openACL}); a.Zxid <= last.zxid {
						t.Errorf("round %d: zxid %d comes after %d", round, a.Zxid, last.zxid)
					}
				})
			}
		})
	}
}

// After a restart of this machine, a client on another machine resumes its session, whether the
// next server has OneMachine or not.
func TestOneMachineLeavesTheSessionsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(nil)
		var others, local *zkproto.ConnectResponse
		onCrashFS(t, disk, Config{}, func(_ *Server, c *rawClient) { others = c.connect(10*time.Second, nil) })
		onCrashFS(t, disk, Config{OneMachine: true}, func(_ *Server, c *rawClient) { local = c.connect(10*time.Second, nil) })
		disk.BootID = store.BootID{2}
		for _, first := range []bool{true, false} {
			onCrashFS(t, disk, Config{OneMachine: first}, func(s *Server, c *rawClient) {
				if again := c.connect(10*time.Second, others); again.SessionID != others.SessionID {
					t.Errorf("OneMachine: %v: the session of another machine is gone", first)
				}
				if again := pipe(t, s).connect(10*time.Second, local); again.SessionID != 0 {
					t.Errorf("OneMachine: %v: the session of a dead process lives", first)
				}
			})
		}
	})
}

// The session of a client on another machine ends while all clients are on this machine. A power
// failure does not bring it back, since another client may have its lock now.
func TestOneMachineKeepsTheEndOfASessionOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(nil)
		disk.BootID = store.BootID{1}
		var others *zkproto.ConnectResponse
		onCrashFS(t, disk, Config{}, func(_ *Server, c *rawClient) {
			others = c.connect(10*time.Second, nil)
			c.create("/lock", zkproto.FlagEphemeral)
		})
		cut := 0
		onCrashFS(t, disk, Config{OneMachine: true}, func(_ *Server, c *rawClient) {
			c.connect(40*time.Second, nil)
			time.Sleep(20 * time.Second)
			c.create("/lock", zkproto.FlagEphemeral)
			cut = disk.Now()
		})
		for seed := range uint64(20) {
			after := crashfs.New(disk.Image(cut, rand.New(rand.NewPCG(seed, 0))))
			after.BootID = store.BootID{2}
			onCrashFS(t, after, Config{}, func(_ *Server, c *rawClient) {
				if again := c.connect(10*time.Second, others); again.SessionID != 0 {
					t.Errorf("seed %d: the session is back", seed)
				}
			})
		}
	})
}
