package zk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

const planted = "pa55-planted"

// auth reads one step of an authentication; its op is 0 when the client has disconnected. A SASL
// packet has a positive xid: on ZooKeeper 3.5 with Netty, a packet with another xid is
// outstanding for ever.
func (p *peer) auth() (op zkproto.Op, digest zkproto.AuthRequest, sasl zkproto.SASLToken) {
	h, r := p.request()
	switch h.Op {
	case zkproto.OpAuth:
		digest.Decode(r)
	case zkproto.OpSASL:
		sasl.Decode(r)
	case 0:
		return 0, digest, sasl
	}
	p.step = h.Xid
	if err := r.Complete(); err != nil || (h.Op == zkproto.OpAuth) != (h.Xid == zkproto.XidAuth) || h.Op == zkproto.OpSASL && h.Xid <= 0 {
		p.t.Errorf("%v with xid %d, %v", h.Op, h.Xid, err)
	}
	return h.Op, digest, sasl
}

// answerAuth answers the step that auth has read; see send.
func (p *peer) answerAuth(code zkproto.Code, body encoder) bool {
	return p.answer(p.step, 0, code, body)
}

// acceptDigest accepts user:password in the next request.
func (p *peer) acceptDigest(user, password string) {
	op, m, _ := p.auth()
	if op == 0 {
		runtime.Goexit()
	}
	if op != zkproto.OpAuth || m.Scheme != "digest" || string(m.Auth) != user+":"+password {
		p.t.Errorf("got %v %q %q; want digest of %s", op, m.Scheme, m.Auth, user)
	}
	p.answerAuth(0, nil)
}

func authConfig(t *testing.T, auth []Auth, serve ...func(p *peer)) Config {
	return Config{
		Servers: []string{"test:1"}, SessionTimeout: 10 * time.Second, Lease: LeasePing, Auth: auth, Dial: dialPeers(t, serve...),
	}
}

func dialAuth(t *testing.T, auth []Auth, serve ...func(p *peer)) *Client {
	t.Helper()
	c, err := Dial(t.Context(), authConfig(t, auth, serve...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// samuel/go-zookeeper #139: auth was not sent again after a reconnect.
// kazoo #509: the list of auths was changed while a reconnect went through it.
func TestAuthIsSentOnEveryConnectionBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queued := make(chan struct{})
		auth := []Auth{SASLDigestAuth("ann", planted), DigestAuth("bob", planted), DigestAuth("eve", planted)}
		handshake := func(p *peer) {
			p.accept(7, 10*time.Second)
			p.acceptSASL("ann", planted)
			p.acceptDigest("bob", planted)
			p.acceptDigest("eve", planted)
		}
		c := dialAuth(t, auth,
			func(p *peer) {
				handshake(p)
				h, _ := p.request()
				if h.Op != zkproto.OpExists {
					t.Errorf("the first request was %v; want the caller's exists", h.Op)
				}
				p.answer(h.Xid, 5, 0, &zkproto.StatResponse{})
			},
			func(p *peer) {
				p.accept(7, 10*time.Second)
				<-queued // a request waits while the connection is authenticated
				p.acceptSASL("ann", planted)
				p.acceptDigest("bob", planted)
				p.acceptDigest("eve", planted)
				h, _ := p.request()
				if h.Op != zkproto.OpSetWatches {
					t.Errorf("after the reconnect came %v; want the watches", h.Op)
				}
				p.answer(h.Xid, 5, 0, nil)
				p.serve()
			})
		auth[0], auth[1] = Auth{}, DigestAuth("mallory", "x")
		if _, _, _, err := c.ExistsW(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		done := make(chan error)
		go func() {
			_, _, err := c.Exists(t.Context(), "/b")
			done <- err
		}()
		synctest.Wait()
		close(queued)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// samuel/go-zookeeper #181: a connection lost while auth was sent again left the
// client waiting for the answer for ever. kazoo #594: the loss was taken for a refusal.
func TestConnectionLostDuringAuthIsFollowedByAnother(t *testing.T) {
	for _, auth := range []Auth{DigestAuth("bob", planted), SASLDigestAuth("bob", planted)} {
		t.Run(auth.scheme, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				accept := func(p *peer) {
					p.accept(7, 10*time.Second)
					if auth.scheme == schemeSASL {
						p.acceptSASL("bob", planted)
					} else {
						p.acceptDigest("bob", planted)
					}
				}
				c := dialAuth(t, []Auth{auth},
					accept, // then hang up
					func(p *peer) { p.accept(7, 10*time.Second); p.auth() }, // hang up in the middle
					func(p *peer) { p.accept(7, 10*time.Second); p.hang() }, // never answer
					func(p *peer) { p.accept(7, 10*time.Second); p.auth(); p.nc.Write([]byte{0, 0}); p.hang() },
					func(p *peer) { p.accept(7, 10*time.Second); p.auth(); p.answer(5, 0, 0, nil); p.hang() }, // an invalid answer
					func(p *peer) { accept(p); p.serve() })
				s := mustSession(t, c)
				synctest.Wait() // until the first connection is broken
				if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
					t.Error(err)
				}
			})
			synctest.Test(t, func(t *testing.T) { // a new session, for which the refusals of all servers are final
				cut := func(p *peer) { p.accept(7, 10*time.Second); p.auth() }
				c := dialAuth(t, []Auth{auth}, cut, cut, cut, func(p *peer) {
					p.accept(7, 10*time.Second)
					if auth.scheme == schemeSASL {
						p.acceptSASL("bob", planted)
					} else {
						p.acceptDigest("bob", planted)
					}
					p.serve()
				})
				if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRefusedAuthFailsDialAtOnce(t *testing.T) {
	refuse := func(code zkproto.Code) func(p *peer) {
		return func(p *peer) { p.accept(7, 10*time.Second); p.auth(); p.answerAuth(code, nil) }
	}
	tests := []struct {
		name  string
		auth  Auth
		serve func(p *peer)
		says  string
	}{
		{"digest", DigestAuth("bob", planted), refuse(zkproto.CodeAuthFailed), "does not accept this scheme"},
		{"SASL at the first step", SASLDigestAuth("bob", planted), refuse(zkproto.CodeAuthFailed), "JAAS"},
		{"SASL is not configured", SASLDigestAuth("bob", planted), func(p *peer) {
			p.accept(7, 10*time.Second)
			p.auth()
			p.answerAuth(0, &zkproto.SASLToken{})
		}, "has no SASL"},
		{"SASL password", SASLDigestAuth("bob", planted), func(p *peer) {
			p.accept(7, 10*time.Second)
			p.challenge()
			p.auth()
			p.answerAuth(zkproto.CodeAuthFailed, &zkproto.SASLToken{})
		}, "refused the user or the password"},
		{"SASL password, where SASL is required", SASLDigestAuth("bob", planted), func(p *peer) {
			p.accept(7, 10*time.Second)
			p.challenge()
			p.auth()
			p.answerAuth(zkproto.CodeSessionClosedRequireSASL, &zkproto.SASLToken{})
		}, "refused the user or the password"},
		{"SASL password, where the failed may stay", SASLDigestAuth("bob", planted), func(p *peer) {
			p.accept(7, 10*time.Second)
			p.challenge()
			p.auth()
			p.answerAuth(0, &zkproto.SASLToken{})
		}, "did not accept"},
		{"a server without the password", SASLDigestAuth("bob", planted), func(p *peer) {
			p.accept(7, 10*time.Second)
			p.challenge()
			p.auth()
			p.answerAuth(0, &zkproto.SASLToken{Token: []byte("rspauth=ea40f60335c427b5527b84dbabcdfffd")})
		}, "did not prove"},
		{"a server that wants encryption by SASL", SASLDigestAuth("bob", planted), func(p *peer) {
			p.accept(7, 10*time.Second)
			p.auth()
			p.answerAuth(0, &zkproto.SASLToken{Token: []byte(`nonce="n",algorithm=md5-sess,qop="auth-conf"`)})
		}, "auth-conf"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				cfg := authConfig(t, []Auth{tt.auth}, tt.serve, tt.serve, func(p *peer) { t.Error("the client tried a third time") })
				cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				start := time.Now()
				_, err := Dial(t.Context(), cfg)
				wantErr(t, err, ErrAuthFailed)
				wantErr(t, err, fs.ErrPermission)
				if err == nil || !contains(err.Error(), "test:1", tt.auth.scheme, `"bob"`, tt.says) {
					t.Errorf("got error %v; want one with the server, the scheme, the user and %q", err, tt.says)
				}
				if time.Since(start) > 50*time.Millisecond {
					t.Errorf("took %v", time.Since(start))
				}
				if secret(fmt.Sprint(err)) || secret(log.String()) {
					t.Errorf("the password is in the error or in the log: %v\n%s", err, log.String())
				}
			})
		})
	}
}

// go-zookeeper PR #163: a refusal while auth was sent again completed requests twice
// and blocked the client for ever. The session goes on until its deadline, since a server may accept it by then.
func TestRefusedAuthAfterAReconnectEndsTheSessionAndFailsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queued := make(chan struct{})
		refuse := func(p *peer) {
			p.accept(7, 10*time.Second)
			<-queued
			p.auth()
			p.answerAuth(zkproto.CodeAuthFailed, nil)
		}
		c := dialAuth(t, []Auth{DigestAuth("bob", planted)},
			func(p *peer) {
				p.accept(7, 10*time.Second)
				p.acceptDigest("bob", planted)
				h, _ := p.request()
				p.answer(h.Xid, 1, 0, &zkproto.StatResponse{}) // the watch
				p.request()                                    // then hang up: the request is lost
			},
			refuse)
		s := mustSession(t, c)
		_, _, w, err := c.ExistsW(t.Context(), "/watched")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Exists(t.Context(), "/lost")
		wantErr(t, err, ErrConnectionLoss)
		outcome := make(chan error)
		for _, f := range []func(context.Context, string) (Stat, bool, error){c.Exists, s.Exists, c.Exists} {
			go func() {
				_, _, err := f(t.Context(), "/queued")
				outcome <- err
			}()
		}
		synctest.Wait()
		deadline := s.Deadline()
		close(queued)
		<-s.Context().Done()
		if time.Now().Before(deadline) {
			t.Errorf("the session ended %v before its deadline", time.Until(deadline))
		}
		wantErr(t, context.Cause(s.Context()), ErrSessionExpired)
		refused := 0
		for range 3 {
			err := <-outcome
			if errors.Is(err, ErrAuthFailed) {
				refused++
			}
			if MayHaveHappened(err) {
				t.Errorf("%v: want an error for a request that was never sent", err)
			}
		}
		if refused != 2 {
			t.Errorf("%d requests failed because of the refusal; want those of the client, not that of the session", refused)
		}
		ev := <-w.C
		wantErr(t, ev.Err, ErrSessionExpired)
		_, err = c.Session(t.Context())
		wantErr(t, err, ErrAuthFailed)
		_, _, err = c.Exists(t.Context(), "/later")
		wantErr(t, err, ErrAuthFailed)
		c.Close()
		_, err = c.Session(t.Context())
		wantErr(t, err, ErrClosed)
	})
}

// ZOOKEEPER-4839: under load, Apache's servers may mistake one client for another. So one refusal
// is not final.
func TestOneRefusalIsNotTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := make(chan struct{}, 3)
		accept := func(p *peer) { p.accept(7, 10*time.Second); p.acceptSASL("bob", planted) }
		refuse := func(p *peer) {
			refused <- struct{}{}
			p.accept(7, 10*time.Second)
			p.challenge()
			p.auth()
			p.answerAuth(zkproto.CodeAuthFailed, &zkproto.SASLToken{})
		}
		c := dialAuth(t, []Auth{SASLDigestAuth("bob", planted)}, refuse, accept, refuse, accept, refuse, func(p *peer) { accept(p); p.serve() })
		s := mustSession(t, c)
		for range 3 {
			<-refused
		}
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
			t.Error(err)
		}
	})
}

// dialMembers makes a client of servers that the test plays, by their addresses. A nil one is down. of a client in a test, by their addresses.
func dialMembers(t *testing.T, cfg Config, members map[string]func(p *peer)) (*Client, error) {
	t.Helper()
	cfg.Lease = LeasePing
	for addr := range members {
		cfg.Servers = append(cfg.Servers, addr)
	}
	cfg.Dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		if members[addr] == nil {
			return nil, errDown
		}
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			members[addr](&peer{t: t, nc: theirs})
		}()
		return ours, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, cfg)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// refuseLogin is a member that refuses every login, as one does that has been upgraded.
func refuseLogin(p *peer) {
	p.accept(7, 10*time.Second)
	p.auth()
	p.answerAuth(zkproto.CodeAuthFailed, nil)
}

// demandLogin is a member that demands a login which the client does not have.
func demandLogin(p *peer) {
	p.accept(7, 10*time.Second)
	if h, _ := p.request(); h.Op != 0 {
		p.answer(h.Xid, 0, zkproto.CodeSessionClosedRequireSASL, nil)
	}
}

// Only the refusals of all servers end a session or a client: a member that is being upgraded may refuse what the others
// accept (ZOOKEEPER-5043).
func TestOneMemberThatAcceptsTheLoginIsEnough(t *testing.T) {
	login := []Auth{DigestAuth("bob", planted)}
	accept := func(p *peer) {
		p.accept(7, 10*time.Second)
		p.acceptDigest("bob", planted)
		p.serve()
	}
	tests := []struct {
		name    string
		auth    []Auth
		members map[string]func(p *peer)
		refused bool
		until   time.Duration // the refusal comes; 0: at once
	}{
		{name: "two refuse", auth: login, members: map[string]func(p *peer){"a:1": refuseLogin, "b:1": refuseLogin, "c:1": accept}},
		{name: "four refuse", auth: login, members: map[string]func(p *peer){"a:1": refuseLogin, "b:1": refuseLogin, "c:1": accept, "d:1": refuseLogin, "e:1": refuseLogin}},
		{name: "all refuse", auth: login, members: map[string]func(p *peer){"a:1": refuseLogin, "b:1": refuseLogin, "c:1": refuseLogin}, refused: true},
		{name: "two refuse and one is down", auth: login, members: map[string]func(p *peer){"a:1": refuseLogin, "b:1": refuseLogin, "c:1": nil}, until: time.Minute},
		{name: "two demand another", members: map[string]func(p *peer){"a:1": demandLogin, "b:1": demandLogin, "c:1": serveSession}},
		{name: "all demand another", members: map[string]func(p *peer){"a:1": demandLogin, "b:1": demandLogin, "c:1": demandLogin}, refused: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 10 { // the client tries the members in random order
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					c, err := dialMembers(t, Config{SessionTimeout: 10 * time.Second, Auth: tt.auth}, tt.members)
					for err == nil { // the demand comes with the first request, and the connection is lost then
						_, _, err = c.Exists(t.Context(), "/a")
						if err == nil {
							break
						}
						if errors.Is(err, ErrConnectionLoss) {
							err = nil
						}
					}
					took := time.Since(start)
					switch {
					case tt.refused:
						wantErr(t, err, ErrAuthFailed)
						if took > time.Second {
							t.Errorf("took %v to find that nobody accepts", took)
						}
					case tt.until > 0:
						if took < tt.until || !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("ended after %v with %v; want a search until the context ends", took, err)
						}
					case err != nil:
						t.Errorf("one member accepts, and the error is %v", err)
					}
				})
			}
		})
	}
}

// A holder goes on until its deadline if no member accepts its login any more, and beyond if one does in time.
func TestRefusedLoginLeavesAHolderItsTime(t *testing.T) {
	for _, login := range []bool{true, false} {
		for _, back := range []bool{true, false} {
			t.Run(fmt.Sprintf("login %v, back %v", login, back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := Config{SessionTimeout: 10 * time.Second}
					serve := serveSession
					refuse := demandLogin
					if login {
						cfg.Auth = []Auth{DigestAuth("bob", planted)}
						refuse = refuseLogin
						serve = func(p *peer) {
							p.accept(7, 10*time.Second)
							p.acceptDigest("bob", planted)
							p.serve()
						}
					}
					var refuses atomic.Bool
					before, upgrade := context.WithCancel(t.Context())
					member := func(p *peer) {
						if refuses.Load() {
							refuse(p)
							return
						}
						if before.Err() == nil {
							defer context.AfterFunc(before, func() { p.nc.Close() })()
						}
						serve(p)
					}
					c, err := dialMembers(t, cfg, map[string]func(p *peer){"a:1": member, "b:1": member})
					if err != nil {
						t.Fatal(err)
					}
					s := mustSession(t, c)
					if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
						t.Fatal(err)
					}
					deadline := s.Deadline()
					refuses.Store(true)
					upgrade()
					if back {
						time.AfterFunc(5*time.Second, func() { refuses.Store(false) })
					}
					select {
					case <-s.Context().Done():
						if back || time.Now().Before(deadline) {
							t.Errorf("the session ended %v before its deadline: %v", time.Until(deadline), context.Cause(s.Context()))
						}
						ended := ErrSessionExpired
						if !login { // only a request shows the refusal
							ended = ErrAuthFailed
						}
						wantErr(t, context.Cause(s.Context()), ended)
						_, _, err = c.Exists(t.Context(), "/later")
						for errors.Is(err, ErrConnectionLoss) {
							_, _, err = c.Exists(t.Context(), "/later")
						}
						wantErr(t, err, ErrAuthFailed)
					case <-time.After(time.Minute):
						if !back {
							t.Error("the session lives, and no member accepts it")
						}
					}
				})
			})
		}
	}
}

// A server that requires SASL answers the first request with an error, and does not touch the
// session. So its answer, even to a ping, must not prove the session.
func TestServerThatDemandsAuthIsNotAskedForEver(t *testing.T) {
	for _, request := range []bool{true, false} {
		t.Run(fmt.Sprint("request ", request), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := dialAuth(t, nil, func(p *peer) {
					p.accept(7, 10*time.Second)
					h, _ := p.request()
					p.answer(h.Xid, 0, zkproto.CodeSessionClosedRequireSASL, nil)
				}, func(p *peer) { t.Error("tried again") })
				s := mustSession(t, c)
				deadline := s.Deadline()
				if request {
					results, _ := c.Pipeline(t.Context(), ExistsOp("/a"), ExistsOp("/b"))
					for i, r := range results {
						wantErr(t, r.Err, ErrAuthFailed)
						if MayHaveHappened(r.Err) != (i > 0) {
							t.Errorf("%v: the server refused only the first request", r.Err)
						}
					}
				}
				<-s.Context().Done()
				wantErr(t, context.Cause(s.Context()), ErrAuthFailed)
				if !s.Deadline().Equal(deadline) {
					t.Error("the refusal proved the session")
				}
				_, err := c.Session(t.Context())
				wantErr(t, err, ErrAuthFailed)
			})
		})
	}
}

// An expired session is not authenticated: the server is about to hang up.
func TestExpiredSessionIsFollowedByAnAuthenticatedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan struct{}) // closed once the test has the first session
		c := dialAuth(t, []Auth{DigestAuth("bob", planted)},
			func(p *peer) { p.accept(7, 10*time.Second); p.acceptDigest("bob", planted); <-seen },
			func(p *peer) { p.accept(0, 0) },
			func(p *peer) {
				if req := p.accept(8, 10*time.Second); req.SessionID != 0 {
					t.Error("the client tried to resume the session that is over")
				}
				p.acceptDigest("bob", planted)
				p.serve()
			})
		first := mustSession(t, c)
		close(seen)
		<-first.Context().Done()
		if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
			t.Error(err)
		}
	})
}

func TestAuthsThatCannotWorkAreRefusedBeforeAnythingIsSent(t *testing.T) {
	tests := []struct {
		auth []Auth
		says string
	}{
		{[]Auth{{}}, "empty Auth"},
		{[]Auth{DigestAuth("", planted)}, "no user"},
		{[]Auth{DigestAuth("bob", "")}, "no password"},
		{[]Auth{DigestAuth("bob:"+planted, "")}, "colon"},
		{[]Auth{SASLDigestAuth("a", planted), SASLDigestAuth("b", planted)}, "one SASL identity"},
		{[]Auth{SASLDigestAuth("a", planted), SASLAuth("TURNS", "b", turns(t, new([]string), "x"))}, "one SASL identity"},
		{[]Auth{SASLAuth("TURNS", "", turns(t, new([]string), "x"))}, "no user"},
	}
	for _, tt := range tests {
		t.Run(tt.says, func(t *testing.T) {
			cfg := authConfig(t, tt.auth, func(*peer) {})
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				t.Error("dialled")
				return nil, errors.New("dialled")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := Dial(ctx, cfg)
			if err == nil || !strings.Contains(err.Error(), tt.says) || secret(err.Error()) {
				t.Errorf("got error %v; want one that says %q", err, tt.says)
			}
		})
	}
}

// secret reports whether s shows the planted password, in clear text or in a form that printing
// a struct may produce.
func secret(s string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, planted) || strings.Contains(s, fmt.Sprintf("%x", planted)) ||
		strings.Contains(s, strings.Trim(fmt.Sprint([]byte(planted)), "[]"))
}

func TestPasswordsAreNeverShown(t *testing.T) {
	for _, auth := range []Auth{DigestAuth("bob", planted), SASLDigestAuth("bob", planted)} {
		type hidden struct{ auth Auth } // package fmt cannot call its methods
		for _, v := range []any{auth, &auth, []Auth{auth}, Config{Auth: []Auth{auth}}, &Client{cfg: Config{Auth: []Auth{auth}}}, hidden{auth}} {
			for _, verb := range "vsqxXdTptbcoUeEfFgGw" {
				for _, flags := range []string{"", "+", "#", "-20", "010.3"} {
					format := "%" + flags + string(verb)
					if out := fmt.Sprintf(format, v); secret(out) {
						t.Errorf("%s of %T: %s", format, v, out)
					}
				}
			}
			var text, jsn bytes.Buffer
			slog.New(slog.NewTextHandler(&text, nil)).Info("x", "v", v)
			slog.New(slog.NewJSONHandler(&jsn, nil)).Info("x", "v", v)
			if secret(text.String()) || secret(jsn.String()) {
				t.Errorf("slog of %T: %s%s", v, text.String(), jsn.String())
			}
		}
		//lint:ignore SA9005 the test shows that JSON gets none of the fields
		if b, err := json.Marshal(auth); err != nil || secret(string(b)) {
			t.Errorf("JSON: %s, %v", b, err)
		}
		if want := auth.scheme + ` user "bob"`; fmt.Sprintf("%#v", auth) != want || auth.String() != want || auth.LogValue().String() != want {
			t.Errorf("%#v; want %s", auth, want)
		}
	}
}
