package zk

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// FuzzParseURL: an accepted URL gives a Config that Dial accepts, and a URL made of that Config
// parses to the same. The error for a refused URL never shows a password.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"zk://a:2181", "zk://a:1,b:2,c/app/x/?timeout=10s&tick=500ms", "zks://[::1]:2181,b:1/x", "unix:///run/zk.sock",
		"zk://user:secret@a:1", "zk://a:1:2", "zk:///x", "zk://a/../y", "zk://a?timeout=%31s", "zk://[::1]", "zk://a:1//", "zks://[1]b:j", "zk://[a:b", "zk://a]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cfg, err := ParseURL(s)
		if err != nil {
			at := strings.LastIndexByte(s, '@')
			if at >= 0 && !strings.Contains(err.Error(), "credentials") {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if err := cfg.check(); err != nil {
			t.Errorf("%q is accepted as %+v, but Dial refuses it: %v", s, cfg, err)
		}
		for _, server := range cfg.Servers {
			network, addr, err := splitServer(server)
			if err != nil {
				t.Errorf("%q: server %q: %v", s, server, err)
			}
			if network == "tcp" { // the port is explicit now
				if again, same, err := splitServer(addr); again != network || same != addr || err != nil {
					t.Errorf("server %q is %q, which is %q, %v", server, addr, same, err)
				}
			}
		}
		if strings.HasPrefix(s, "unix:") {
			return
		}
		scheme := "zk"
		if cfg.TLS != nil {
			scheme = "zks"
		}
		q := url.Values{"timeout": {cfg.SessionTimeout.String()}, "tick": {cfg.TickTime.String()}}
		made := scheme + "://" + strings.Join(cfg.Servers, ",") + cfg.Chroot + "?" + q.Encode()
		if again, err := ParseURL(made); err != nil || !reflect.DeepEqual(again, cfg) {
			t.Errorf("%q is %+v; written as %q it is %+v, %v", s, cfg, made, again, err)
		}
	})
}

// FuzzNewPath: a sequential node's path is valid exactly if the path with its number is.
func FuzzNewPath(f *testing.F) {
	for _, s := range []string{"/", "/a", "/a/", "/a/.", "/a/..", "", "a", "//", "/a//", "/a/\xff", "/a/-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		err, full := validateNew(path, EphemeralSequential), zkproto.ValidatePath(path+"0000000007")
		if (err == nil) != (full == nil) || err != nil && !errors.Is(err, ErrInvalidPath) {
			t.Errorf("%q: %v; with its number: %v", path, err, full)
		}
	})
}

// FuzzServer plays a server that sends arbitrary bytes, during the handshake and the authentication or
// after them. The client must not hang, and must leave nothing behind when it is closed.
func FuzzServer(f *testing.F) {
	frame := func(parts ...encoder) []byte {
		b := zkproto.BeginFrame(nil)
		for _, p := range parts {
			b = p.Append(b)
		}
		return zkproto.EndFrame(b, 0)
	}
	header := func(xid int32, code zkproto.Code) encoder { return &zkproto.ReplyHeader{Xid: xid, Zxid: 5, Err: code} }
	join := func(frames ...[]byte) (b []byte) {
		for _, frame := range frames {
			b = append(b, frame...)
		}
		return b
	}
	stat := &zkproto.StatResponse{}
	f.Add(uint8(0), frame(&zkproto.ConnectResponse{Timeout: 4000, SessionID: 9, Passwd: make([]byte, 16), HasReadOnly: true}))
	f.Add(uint8(0), []byte("imok"))
	f.Add(uint8(1), frame(header(1, 0), &zkproto.SASLToken{Token: []byte(`nonce="n",algorithm=md5-sess`)}))
	f.Add(uint8(1), frame(header(1, zkproto.CodeAuthFailed)))
	f.Add(uint8(2), join(frame(header(1, 0), stat), frame(header(2, 0), &zkproto.Children2Response{Children: []string{"a"}}),
		frame(header(3, 0), &zkproto.GetDataResponse{Data: []byte("x")}), frame(header(4, 0), &zkproto.MultiResponse{Results: []zkproto.MultiResult{{Op: zkproto.OpCheck}}}),
		frame(header(5, 0), &zkproto.ErrorResponse{}), frame(header(zkproto.XidNotification, 0), &zkproto.WatcherEvent{Type: zkproto.EventNodeDeleted, State: 3, Path: "/a"})))
	f.Add(uint8(2), join(frame(header(1, zkproto.CodeNoNode)), frame(header(2, zkproto.CodeSessionMoved))))
	f.Add(uint8(2), frame(header(1, zkproto.CodeSessionClosedRequireSASL)))
	f.Add(uint8(2), frame(header(1, zkproto.CodeSessionExpired)))
	f.Add(uint8(2), []byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, where uint8, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			var tries atomic.Int32
			cfg := Config{Servers: []string{"test:1"}, SessionTimeout: 4 * time.Second, Lease: LeasePing}
			if where%3 == 1 {
				cfg.Auth = []Auth{SASLDigestAuth("bob", planted)}
			}
			cfg.Dial = dialPeers(t, func(p *peer) {
				tries.Add(1)
				go func() { // read on, or the client could not write
					for {
						if _, err := p.nc.Read(make([]byte, 4096)); err != nil {
							return
						}
					}
				}()
				if where%3 != 0 {
					resp := &zkproto.ConnectResponse{Timeout: 4000, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true}
					p.nc.Write(frame(resp))
				}
				p.nc.Write(b)
				time.Sleep(time.Second)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			c, err := Dial(ctx, cfg)
			if err == nil {
				c.Pipeline(ctx, ExistsOp("/a"), ChildrenOp("/a"), GetOp("/a"))
				c.Multi(ctx, CheckOp("/a", 0))
				c.MultiRead(ctx, GetOp("/a"), ChildrenOp("/a"))
				if w, err := c.AddWatch(ctx, "/a", WatchPersistentRecursive); err == nil {
					w.Stop()
				}
				if _, _, w, err := c.ExistsW(ctx, "/a"); err == nil {
					w.Stop()
				}
				start := time.Now()
				c.Close()
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("Close took %v; want it at once", took)
				}
			} else if secret(err.Error()) {
				t.Errorf("the error shows the password: %v", err)
			}
			if n := tries.Load(); n > 200 {
				t.Errorf("%d connections in three seconds", n)
			}
			time.Sleep(2 * time.Second) // the peers notice that the client is gone
		})
	})
}
