//go:build unix

package doctor

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// answers plays a server that answers srvr with text.
func answers(t *testing.T, text string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				if _, err := io.ReadFull(nc, make([]byte, 4)); err == nil {
					_, _ = io.WriteString(nc, text)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// The proof of a lease on an ensemble is only known for Apache's servers. So doctor names others.
func TestServersThatAreNotApacheAreNamed(t *testing.T) {
	for _, tt := range []struct {
		what, text, version, other string
	}{
		{"Apache", "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC\nLatency min/avg/max: 0/0/0\nMode: follower\n", "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f", ""},
		{"Debian's", "Zookeeper version: 3.8.0--1, built on 2023-12-11 17:30 UTC\nMode: standalone\n", "3.8.0", ""},
		{"another", "ClickHouse Keeper version: v24.8.4.13-stable-, built on Sun Sep  1 2024\nMode: leader\n", "v24.8.4.13-stable-", "ClickHouse Keeper v24.8.4.13-stable-"},
		{"nothing is allowed", "srvr is not executed because it is not in the whitelist.\n", "", ""},
		{"silence", "", "", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			addr := answers(t, tt.text)
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			e := &examined{name: "h:1"}
			if got := e.ask(nc, time.Minute); got != tt.version {
				t.Errorf("version %q; want %q", got, tt.version)
			}
			if tt.other == "" {
				if len(e.findings) > 0 {
					t.Errorf("doctor says %q", states(e.findings))
				}
			} else {
				found(t, e.findings, stateWarning, "it is "+tt.other+", and not Apache ZooKeeper")
			}
		})
	}
}

func TestDoctorFindsAServerWithoutContainers(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"":                             zktest.Pass,
		"connections in a row broke":   zktest.DropRequest,
		"does not know this operation": zktest.Action(zkproto.CodeUnimplemented),
		"bad arguments":                zktest.Action(zkproto.CodeBadArguments),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				srv.Intercept(zkproto.OpCreateContainer, func(string) zktest.Action { return action })
				session, err := srv.Client().Session(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := session.Create(t.Context(), "/probe", nil, zk.Ephemeral); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				e := &examined{name: "h:1"}
				e.judgeContainers(ctx, session, "/probe")
				if name == "" {
					if len(e.findings) > 0 {
						t.Errorf("doctor says %q", states(e.findings))
					}
					return
				}
				found(t, e.findings, stateWarning, "the server has no containers")
				if !strings.Contains(e.findings[0].Found, name) {
					t.Errorf("doctor says %q; want %q", e.findings[0].Found, name)
				}
			})
		})
	}
}
