package zk

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// Each client tries the servers in its own random order, so that not all are on the first server. The
// order goes round, so no server is left out. Every attempt passes the name to Dial, which looks
// it up: addresses change.
func TestServersAreTriedInRandomOrderOneAfterTheOther(t *testing.T) {
	servers := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
	firsts := make(map[string]bool)
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			var tried []string
			ctx, cancel := context.WithCancel(t.Context())
			_, err := Dial(ctx, Config{Servers: servers, Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
				if tried = append(tried, addr); len(tried) == 3*len(servers) {
					cancel()
				}
				return nil, errors.New("down")
			}})
			wantErr(t, err, context.Canceled)
			for i := range servers {
				if tried[i] != tried[i+len(servers)] || tried[i] != tried[i+2*len(servers)] {
					t.Errorf("tried %v; want the same round again", tried)
				}
			}
			firsts[tried[0]] = true
			slices.Sort(tried[:len(servers)])
			if !slices.Equal(tried[:len(servers)], servers) {
				t.Errorf("the first round was %v; want every server once", tried[:len(servers)])
			}
		}
	})
	if len(firsts) != len(servers) {
		t.Errorf("100 clients began only with %v; want each server to be first for some", firsts)
	}
	if !slices.IsSorted(servers) {
		t.Error("the caller's list was changed")
	}
}

// One dead server of several leaves time for the others before the session lapses.
func TestDeadServersLeaveTimeForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 9 * time.Second
		var down atomic.Bool
		up := dialPeers(t, func(p *peer) { p.accept(7, timeout); p.expect(zkproto.OpExists, nil, &zkproto.StatResponse{}) },
			func(p *peer) { p.accept(7, timeout); p.serve() })
		c, err := Dial(t.Context(), Config{
			Servers: []string{"dead:1", "dead:2", "alive:1"}, SessionTimeout: timeout, Lease: LeasePing,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr != "alive:1" && down.Load() {
					<-ctx.Done() // the packets are lost
					return nil, ctx.Err()
				}
				if addr != "alive:1" {
					return nil, errors.New("refused")
				}
				return up(ctx, network, addr)
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s := mustSession(t, c)
		down.Store(true)
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil { // then the server hangs up
			t.Fatal(err)
		}
		synctest.Wait()
		if _, _, err := s.Exists(t.Context(), "/b"); err != nil {
			t.Errorf("the session was not resumed in time: %v", err)
		}
	})
}

func TestResumeShowsIdPasswordAndWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		password := []byte("0123456789abcdef")
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.frame()
			resp := &zkproto.ConnectResponse{Timeout: 10000, SessionID: 7, Passwd: password, HasReadOnly: true}
			p.send(resp.Append(nil))
			h, _ := p.request()
			p.answer(h.Xid, 42, 0, &zkproto.StatResponse{})
		}, func(p *peer) {
			req := p.accept(7, 10*time.Second)
			if req.SessionID != 7 || !bytes.Equal(req.Passwd, password) || req.LastZxidSeen != 42 || req.ReadOnly {
				t.Errorf("resumed with %+v", req)
			}
			p.serve()
		})
		s := mustSession(t, c)
		for _, path := range []string{"/a", "/b"} {
			if _, _, err := s.Exists(t.Context(), path); err != nil {
				t.Error(err)
			}
			synctest.Wait() // the server has hung up
		}
	})
}

// A countingConn counts the writes.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// All requests that are ready to be sent take one system call.
func TestWhatIsQueuedIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		c := dialThrough(t, time.Hour, func(nc net.Conn) net.Conn { return countingConn{nc, &writes} },
			func(p *peer) { p.accept(7, time.Hour); p.serve() })
		synctest.Wait()
		writes.Store(0)
		ops := make([]Op, 1000)
		for i := range ops {
			ops[i] = ExistsOp("/a")
		}
		if _, err := c.Pipeline(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		if n := writes.Load(); n != 1 {
			t.Errorf("a pipeline of %d operations took %d writes", len(ops), n)
		}
	})
}
