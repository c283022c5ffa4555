package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// request is the data that Curator's Revoker writes, and that Curator looks for.
const request = "__REVOKE__"

// dataOf returns the data of a node.
func dataOf(t *testing.T, c *zk.Client, path string) string {
	t.Helper()
	data, _, err := c.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func revoke(t *testing.T, c *zk.Client, token int64) {
	t.Helper()
	if err := holdfast.Revoke(t.Context(), c, lockPath, token); err != nil {
		t.Fatal(err)
	}
}

// asked waits until h is asked to release.
func asked(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	select {
	case <-h.Revoked():
	case <-time.After(time.Minute):
		t.Error("the holder was not told of the release request")
	}
}

// Revoke keeps the data of the holder's node, for each kind of data and each way to ask.
func TestRevokeKeepsTheDataOfTheNode(t *testing.T) {
	foreign := func(t *testing.T, c *zk.Client, h *holdfast.Hold) { // Curator's Revoker
		if _, err := c.Set(t.Context(), h.Path(), []byte(request), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	ours := func(t *testing.T, c *zk.Client, h *holdfast.Hold) { revoke(t, c, h.Token()) }
	locks := map[string]func(c *zk.Client) holdfast.Locker{
		"owner and reason": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithOwner("api-7"), holdfast.WithReason("reindex"))
		},
		"nothing": func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
		"value": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte(`{"a":1}`)))
		},
		"value that looks like a note": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte(`{"owner":"x"}`)))
		},
		"id": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.SessionID))
		},
		"node": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewNodeLock(c, lockPath, holdfast.WithOwner("api-7"))
		},
		"permit": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 2, holdfast.WithOwner("api-7")).Locker(1)
		},
		"candidate": func(c *zk.Client) holdfast.Locker { return candidate{holdfast.NewElection(c, lockPath), "10.0.0.5:80"} },
		"candidate with id": func(c *zk.Client) holdfast.Locker {
			return candidate{holdfast.NewElection(c, lockPath, holdfast.WithLayout(layout.HostRW)), "10.0.0.5:80"}
		},
	}
	for name, of := range locks {
		for how, ask := range map[string]func(*testing.T, *zk.Client, *holdfast.Hold){"Revoke": ours, "Curator's Revoker": foreign} {
			for when, d := range map[string]time.Duration{"at once": 0, "later": 100 * time.Millisecond} {
				t.Run(name+"/"+how+"/"+when, func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						admin := client(t, srv)
						h := lock(t, of(client(t, srv)))
						before := dataOf(t, admin, h.Path())
						time.Sleep(d)
						ask(t, admin, h)
						asked(t, h)
						time.Sleep(100 * time.Millisecond)
						// The request may stay in a note; it was not there before.
						after := strings.Replace(dataOf(t, admin, h.Path()), `,"revoke":true}`, "}", 1)
						if after != before {
							t.Errorf("the node had data %q and now has %q", before, after)
						}
						if _, n, err := admin.Get(t.Context(), h.Path()); err != nil || n.Version > 2 {
							t.Errorf("version %d, %v: the node is written again and again", n.Version, err)
						}
						unlock(t, h)
					})
				})
			}
		}
	}
}

// A Curator lock is asked in Curator's own format, which replaces all other data.
func TestRevokeAsksCuratorInItsOwnWords(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		if err := holdfast.Do(t.Context(), holdfast.NewMutex(c, lockPath), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for i, data := range []string{"", "10.0.0.5", `{"host":"web-1"}`, "{}"} { // "" is the data of revocable locks
			path := fmt.Sprintf("%s/_c_%036d-lock-", lockPath, i)
			path, stat, err := c.Create(t.Context(), path, []byte(data), zk.EphemeralSequential)
			if err != nil {
				t.Fatal(err)
			}
			revoke(t, c, stat.Czxid)
			if got := dataOf(t, c, path); got != request {
				t.Errorf("%q became %q", data, got)
			}
		}
	})
}

// A reader that was a writer keeps the writer's token when it is asked to release. So Break
// still finds it by that token.
func TestBreakFindsADowngradedReaderThatWasRevoked(t *testing.T) {
	for how, ask := range map[string]func(t *testing.T, c *zk.Client, r *holdfast.Hold){
		"Revoke": func(t *testing.T, c *zk.Client, r *holdfast.Hold) { revoke(t, c, r.Token()) },
		"Curator's Revoker": func(t *testing.T, c *zk.Client, r *holdfast.Hold) {
			if _, err := c.Set(t.Context(), r.Path(), []byte(request), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				m := holdfast.NewRWMutex(client(t, srv), lockPath)
				w := lock(t, m)
				r, err := m.RLock(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, w)
				ask(t, admin, r)
				asked(t, r)
				time.Sleep(100 * time.Millisecond)
				queue, err := holdfast.List(t.Context(), admin, lockPath)
				if err != nil || len(queue) != 1 || queue[0].Token != w.Token() {
					t.Errorf("listed as %+v, %v; want the token %d", queue, err, w.Token())
				}
				if err := holdfast.Break(t.Context(), admin, lockPath, w.Token()); err != nil {
					t.Fatal(err)
				}
				<-r.Lost()
			})
		})
	}
}

// The answer to the create is lost. Before the client looks for its node, another client asks
// it to release. The client finds its node all the same.
func TestNodeThatWasRevokedIsFoundAgain(t *testing.T) {
	for name, of := range map[string]func(c *zk.Client) holdfast.Locker{
		"node lock": func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath+"/node") },
		"session id": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath+"/node", holdfast.WithLayout(layout.SessionID))
		},
		"host": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath+"/node", holdfast.WithLayout(layout.HostRW), holdfast.WithOwner("me")).RLocker()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, admin := client(t, srv), client(t, srv)
				unlock(t, lock(t, of(c))) // creates the parents
				var lost, revoked atomic.Bool
				srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
					if strings.HasPrefix(path, lockPath+"/node") && !lost.Swap(true) {
						return zktest.DropReply
					}
					return zktest.Pass
				})
				srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the transaction that begins the search
					if !lost.Load() || revoked.Swap(true) {
						return zktest.Pass
					}
					which := layout.SessionID
					if name == "host" {
						which = layout.HostRW
					}
					queue, err := holdfast.List(t.Context(), admin, lockPath+"/node", which)
					if err != nil || len(queue) != 1 {
						t.Errorf("%+v, %v", queue, err)
						return zktest.Pass
					}
					if err := holdfast.Revoke(t.Context(), admin, lockPath+"/node", queue[0].Token); err != nil {
						t.Error(err)
					}
					return zktest.Pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				h, err := of(c).Lock(ctx)
				if err != nil {
					t.Fatalf("it waits for its own node: %v", err)
				}
				if !revoked.Load() {
					t.Error("the search for the node was never intercepted: the test shows nothing")
				}
				asked(t, h)
				unlock(t, h)
			})
		})
	}
}

// An observer of an election never gets a release request as the leader's value.
func TestObserversSeeNoRequestForAValue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		e := holdfast.NewElection(client(t, srv), lockPath)
		h := lock(t, candidate{e, "10.0.0.5:80"})
		var mu sync.Mutex
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for l, err := range holdfast.NewElection(admin, lockPath).Leaders(ctx) {
				if err == nil {
					mu.Lock()
					seen = append(seen, string(l.Value))
					mu.Unlock()
				}
			}
		}()
		time.Sleep(time.Second)
		th := newThrottle(srv, zkproto.OpSetData)
		for range 3 {
			th.on.Store(true) // so that the leader cannot restore its value
			if _, err := admin.Multi(t.Context(), zk.SetOp(h.Path(), []byte(request), zk.AnyVersion)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if l, err := holdfast.NewElection(admin, lockPath).Leader(t.Context()); err != nil || l.Value != nil || l.Term != h.Token() {
				t.Errorf("the leader is %+v, %v; want one without a value", l, err)
			}
			th.on.Store(false)
			time.Sleep(2 * time.Second)
		}
		asked(t, h)
		revoke(t, admin, h.Token())
		time.Sleep(time.Second)
		if l, err := holdfast.NewElection(admin, lockPath).Leader(t.Context()); err != nil || string(l.Value) != "10.0.0.5:80" {
			t.Errorf("the leader is %+v, %v; want its value", l, err)
		}
		if err := e.Proclaim(t.Context(), h, []byte("10.0.0.6:80")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(seen) != "[10.0.0.5:80 10.0.0.6:80]" {
			t.Errorf("seen: %q", seen)
		}
		cancel()
		unlock(t, h)
	})
}

// Proclaim keeps the node's other data. If a value and a release request come together,
// neither is lost.
func TestProclaimAndRevokeTogetherLoseNothing(t *testing.T) {
	for _, layout := range []holdfast.Layout{layout.Curator, layout.SessionID} {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				in := holdfast.WithLayout(layout)
				for i := range 50 {
					e := holdfast.NewElection(client(t, srv), lockPath, in)
					h := lock(t, candidate{e, "0"})
					time.Sleep(time.Duration(i%8) * time.Millisecond)
					var wg sync.WaitGroup
					wg.Go(func() {
						for value := range 5 {
							if err := e.Proclaim(t.Context(), h, fmt.Append(nil, value)); err != nil {
								t.Error(err)
							}
						}
					})
					wg.Go(func() { revoke(t, admin, h.Token()) })
					wg.Wait()
					asked(t, h)
					time.Sleep(100 * time.Millisecond)
					if l, err := holdfast.NewElection(admin, lockPath, in).Leader(t.Context()); err != nil || string(l.Value) != "4" {
						t.Fatalf("%d: the leader is %+v, %v; want the value", i, l, err)
					}
					if data := dataOf(t, admin, h.Path()); layout.Name == "sessionid" && !strings.Contains(data, `"id":`) {
						t.Fatalf("%d: the node has lost its id: %s", i, data)
					}
					unlock(t, h)
				}
			})
		})
	}
}

// No tenure has token zero, though most notes name none.
func TestNobodyHasTheTokenZero(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		wantErr(t, holdfast.Break(t.Context(), c, lockPath, 0), holdfast.ErrNotHeld)
		wantErr(t, holdfast.Revoke(t.Context(), c, lockPath, 0), holdfast.ErrNotHeld)
		time.Sleep(time.Second)
		if h.Context().Err() != nil {
			t.Error(context.Cause(h.Context()))
		}
		unlock(t, h)
	})
}

// A value that looks like a release request would be taken for one.
func TestRequestIsRefusedAsAValue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte(request))).Lock(t.Context())
		wantErr(t, err, zk.ErrBadArguments)
		e := holdfast.NewElection(c, lockPath)
		_, err = e.Campaign(t.Context(), []byte(request))
		wantErr(t, err, zk.ErrBadArguments)
		h := lock(t, candidate{e, "a"})
		wantErr(t, e.Proclaim(t.Context(), h, []byte(request)), zk.ErrBadArguments)
		unlock(t, h)
		synctest.Wait()
	})
}

// The answer to the delete is lost, and a successor's node has the same name. Break must not
// remove it.
func TestBreakWithALostAnswerSparesTheSuccessor(t *testing.T) {
	for _, fault := range faults {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				h := lock(t, holdfast.NewNodeLock(client(t, srv), lockPath))
				next := wait(t.Context(), holdfast.NewNodeLock(client(t, srv), lockPath))
				admin := newLine(t, srv)
				srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
					srv.Intercept(zkproto.OpDelete, nil)
					admin.stay()
					return fault
				})
				broken := make(chan error, 1)
				go func() { broken <- holdfast.Break(t.Context(), admin.Client, lockPath, h.Token()) }()
				var n *holdfast.Hold
				if fault == zktest.DropReply {
					n = next.got(t) // before Break looks again
				}
				synctest.Wait()
				admin.mend()
				if err := <-broken; err != nil {
					t.Fatal(err)
				}
				if n == nil {
					n = next.got(t)
				}
				time.Sleep(time.Minute)
				if n.Context().Err() != nil {
					t.Errorf("the successor lost the lock: %v", context.Cause(n.Context()))
				}
				unlock(t, n)
				h.Unlock()
			})
		})
	}
}

// A holder restores its data at a server that throttles writes. It is told of the removal of
// its node meanwhile. It also takes out later requests.
func TestHolderThatRestoresItsDataIsToldOfALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithValue([]byte("mine"))))
		time.Sleep(time.Second)
		var throttled atomic.Bool
		var own atomic.Int64 // writes of the holder
		srv.Intercept(zkproto.OpSetData, func(string) zktest.Action {
			if throttled.Load() && own.Add(1) < enough {
				return zktest.Throttle
			}
			return zktest.Pass
		})
		write := func() {
			t.Helper()
			throttled.Store(false)
			if _, err := admin.Set(t.Context(), h.Path(), []byte(request), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			throttled.Store(true)
			time.Sleep(100 * time.Millisecond)
		}
		for range 5 { // several requests before the first is taken out
			write()
		}
		if own.Load() == 0 {
			t.Fatal("the holder did not write: the test shows nothing")
		}
		throttled.Store(false)
		time.Sleep(5 * time.Second)
		if got := dataOf(t, admin, h.Path()); got != "mine" {
			t.Errorf("the node has data %q", got)
		}
		write()
		if err := admin.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		select {
		case <-h.Lost():
		case <-time.After(time.Second):
			t.Error("the holder was not told for a second")
		}
		throttled.Store(false)
		h.Unlock()
	})
}

// The server that the caller reads from is behind: it does not show the holder yet. Nobody is told that the lock is free
// before it has read behind a write.
func TestBreakAtAServerThatIsBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin, c := client(t, srv), client(t, srv)
		got := claim(t, detached(c, 0))
		data, _, err := admin.Get(t.Context(), got.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), got.Path, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the server has caught up when it answers a write
			if _, _, err := admin.Create(t.Context(), got.Path, data, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Error(err)
			}
			return zktest.Pass
		})
		if err := holdfast.Break(t.Context(), c, lockPath, got.Token); err != nil {
			t.Error(err)
		}
		wantQueued(t, admin, 0)
	})
}
