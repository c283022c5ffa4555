package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f with a server on fake time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

func create(t *testing.T, c *zk.Client, path string, mode zk.Mode) error {
	t.Helper()
	_, _, err := c.Create(t.Context(), path, nil, mode)
	return err
}

func exists(t *testing.T, c *zk.Client, path string) bool {
	t.Helper()
	_, ok, err := c.Exists(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func session(t *testing.T, c *zk.Client) *zk.Session {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestExpireRemovesEphemeralsAndTellsTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := srv.Client(), srv.Client()
		s := session(t, c)
		if err := create(t, c, "/e", zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		srv.Expire(s.ID())
		if exists(t, other, "/e") {
			t.Error("/e is still there")
		}
		<-s.Context().Done()
		if err := context.Cause(s.Context()); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("the session ended with %v; want ErrSessionExpired", err)
		}
	})
}

func TestRestartKeepsNodesAndSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		s := session(t, c)
		if err := create(t, c, "/e", zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		srv.Restart()
		time.Sleep(time.Minute)
		if !exists(t, c, "/e") {
			t.Error("/e is gone")
		}
		if again := session(t, c); again != s {
			t.Errorf("the client has session %x now; want %x as before", again.ID(), s.ID())
		}
	})
}

// The times of nodes follow the clock, also after a restart. Sessions do not.
func TestMoveClockChangesTheTimesOfNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		var last zk.Stat
		for i, step := range []time.Duration{0, -time.Hour, 2 * time.Hour, -3 * time.Hour} {
			srv.MoveClock(step)
			if i == 2 {
				srv.Restart()
				synctest.Wait() // the client has lost its connection
			}
			_, stat, err := c.Create(t.Context(), fmt.Sprint("/", i), nil, zk.Ephemeral)
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Duration(stat.Mtime-last.Mtime) * time.Millisecond; i > 0 && (got < step || got > step+time.Minute) {
				t.Errorf("step %v moves the time by %v", step, got)
			}
			last = stat
		}
		for i := range 4 {
			if _, ok, err := c.Exists(t.Context(), fmt.Sprint("/", i)); err != nil || !ok {
				t.Errorf("the session of node %d has ended: %v", i, err)
			}
		}
	})
}

func TestStallIsSilenceInBothDirections(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		s := session(t, c)
		resume := srv.Stall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := c.Exists(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call during the stall returned %v; want it to wait", err)
		}
		resume()
		exists(t, c, "/")
		if session(t, c) != s {
			t.Error("a short stall ended the session")
		}

		resume = srv.Stall()
		time.Sleep(time.Minute)
		resume()
		if session(t, c) == s {
			t.Error("the session survived a stall longer than its timeout")
		}
	})
}

func TestCloseClientConnectionsKeepsSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		s := session(t, c)
		for range 5 {
			srv.CloseClientConnections()
			time.Sleep(10 * time.Second)
			exists(t, c, "/")
		}
		if session(t, c) != s {
			t.Error("the session after the restart is another")
		}
	})
}

func TestInterceptDropsRequestOrReply(t *testing.T) {
	for _, tt := range []struct {
		action  zktest.Action
		created bool
		maybe   bool
	}{
		{zktest.Pass, true, false},
		{zktest.DropRequest, false, true},
		{zktest.DropReply, true, true},
	} {
		t.Run(fmt.Sprint(tt.action), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := srv.Client()
				var paths []string
				srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
					paths = append(paths, path)
					return tt.action
				})
				err := create(t, c, "/a", zk.Persistent)
				if failed := tt.action != zktest.Pass; (err != nil) != failed {
					t.Fatalf("create: %v", err)
				}
				if zk.MayHaveHappened(err) != tt.maybe {
					t.Errorf("MayHaveHappened(%v) is %v; want %v", err, !tt.maybe, tt.maybe)
				}
				srv.Intercept(zkproto.OpCreate2, nil)
				if got := exists(t, c, "/a"); got != tt.created {
					t.Errorf("/a exists: %v; want %v", got, tt.created)
				}
				if len(paths) != 1 || paths[0] != "/a" {
					t.Errorf("the function saw %q; want /a once", paths)
				}
			})
		})
	}
}

// A throttled request gets its answer in order and has no effect. The connection stays open.
func TestThrottledRequestIsNotExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
			if path == "/b" {
				return zktest.Throttle
			}
			return zktest.Pass
		})
		results, err := c.Pipeline(t.Context(),
			zk.CreateOp("/a", nil, zk.Persistent), zk.CreateOp("/b", nil, zk.Persistent), zk.CreateOp("/c", nil, zk.Persistent))
		if len(results) != 3 || results[0].Err != nil || results[2].Err != nil || !errors.Is(err, zk.ErrThrottled) || !zk.SafeToRetry(results[1].Err) {
			t.Fatalf("%+v, %v; want the second to be throttled", results, err)
		}
		if exists(t, c, "/b") {
			t.Error("/b was made by a throttled request")
		}
		if !exists(t, c, "/a") || !exists(t, c, "/c") {
			t.Error("a request that was not throttled was not executed")
		}
	})
}

// An error in place of the answer: the request is not executed. A server that does not know a request closes the connection.
func TestInterceptAnswersWithAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		for _, code := range []zkproto.Code{zkproto.CodeBadArguments, zkproto.CodeUnimplemented} {
			srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action { return zktest.Action(code) })
			results, err := c.Pipeline(t.Context(), zk.CreateOp("/a", nil, zk.Persistent), zk.ExistsOp("/"))
			lost := errors.Is(results[1].Err, zk.ErrConnectionLoss)
			if !errors.Is(err, code) || zk.MayHaveHappened(results[0].Err) || lost != (code == zkproto.CodeUnimplemented) {
				t.Errorf("%v: %v, and the request behind it %v", code, err, results[1].Err)
			}
			if exists(t, c, "/a") {
				t.Errorf("%v: the request was executed", code)
			}
		}
	})
}

// When a reply is dropped, the replies before it on the same connection must have arrived.
func TestDropReplyLosesNothingBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action { return zktest.DropReply })
		results, _ := c.Pipeline(t.Context(),
			zk.CreateOp("/a", nil, zk.Persistent), zk.DeleteOp("/none", -1), zk.CreateOp("/b", nil, zk.Persistent))
		if len(results) != 3 || results[0].Err != nil {
			t.Errorf("the create before the lost reply: %+v; want it to succeed", results)
		}
		if len(results) == 3 && !zk.MayHaveHappened(results[1].Err) {
			t.Errorf("the lost delete: %v; want an error of unknown outcome", results[1].Err)
		}
		if !exists(t, c, "/a") {
			t.Error("/a does not exist though its create succeeded")
		}
	})
}

func TestDialIsRefusedAfterClose(t *testing.T) {
	srv := zktest.NewServer()
	cfg := srv.Config()
	srv.Close()
	srv.Close()
	if nc, err := cfg.Dial(t.Context(), "tcp", "x:1"); err == nil {
		nc.Close()
		t.Error("Dial succeeded on a closed server")
	}
}
