package zk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// names makes host names resolve to the given addresses until the test ends. Connections to
// these go through dial.
func names(t *testing.T, hosts map[string][]string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	t.Helper()
	lookup, dialer := lookupIP, dialAddr
	t.Cleanup(func() { lookupIP, dialAddr = lookup, dialer })
	dialAddr = dial
	lookupIP = func(_ context.Context, network, host string) (ips []netip.Addr, _ error) {
		for _, a := range hosts[host] {
			ips = append(ips, netip.MustParseAddr(a))
		}
		if network != "ip" || ips == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return ips, nil
	}
}

// One name has three addresses, and packets to two of them are lost. Wherever the live one is
// in the order, a client connects, and resumes its session in time.
func TestDeadAddressesOfANameLeaveTimeForTheOthers(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 4 * time.Second
			serve := dialPeers(t, func(p *peer) { p.accept(7, timeout); p.expect(zkproto.OpExists, nil, &zkproto.StatResponse{}) },
				func(p *peer) { p.accept(7, timeout); p.serve() })
			names(t, map[string][]string{"zk": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
				func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "10.0.0.3:2181" {
						return serve(ctx, network, addr)
					}
					<-ctx.Done()
					return nil, fmt.Errorf("dial tcp %s: %w", addr, ctx.Err())
				})
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := Dial(ctx, Config{Servers: []string{"zk"}, SessionTimeout: timeout, Lease: LeasePing})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if took := time.Since(began); took > timeout/2 {
				t.Errorf("connected after %v", took)
			}
			s := mustSession(t, c)
			if _, _, err := s.Exists(t.Context(), "/a"); err != nil { // then the server hangs up
				t.Fatal(err)
			}
			synctest.Wait()
			if _, _, err := s.Exists(t.Context(), "/b"); err != nil {
				t.Errorf("the session was not resumed in time: %v", err)
			}
		})
	}
}

// The server grants less than the client has asked for. A dead server must leave time for the others
// before the session that was granted lapses.
func TestDeadServerLeavesTimeWithinTheGrantedTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked, granted = 40 * time.Second, 4 * time.Second
		serve := dialPeers(t, func(p *peer) { p.accept(7, granted); p.expect(zkproto.OpExists, nil, &zkproto.StatResponse{}) },
			func(p *peer) { p.accept(7, granted); p.serve() })
		dials := 0
		c, err := Dial(t.Context(), Config{
			Servers: []string{"a:1", "b:1"}, SessionTimeout: asked, Lease: LeasePing,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials++; dials == 2 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return serve(ctx, network, addr)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s := mustSession(t, c)
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil { // then the server hangs up
			t.Fatal(err)
		}
		synctest.Wait()
		if _, _, err := s.Exists(t.Context(), "/b"); err != nil {
			t.Errorf("the session was not resumed in time: %v", err)
		}
	})
}

// A slow lookup and a dead address take one share of the time together, not one each.
func TestLookupAndConnectShareOneTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * time.Second
		names(t, map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}}, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		quick := lookupIP
		lookupIP = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
			time.Sleep(900 * time.Millisecond)
			return quick(ctx, network, host)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
		defer cancel()
		attempts := 0
		_, err := Dial(ctx, Config{Servers: []string{"a", "b"}, SessionTimeout: timeout, Trace: &Trace{
			ConnectDone: func(server string, took time.Duration, _ error) {
				if attempts++; took > timeout/4 {
					t.Errorf("the attempt to connect to %s took %v; want %v at most", server, took, timeout/4)
				}
			},
		}})
		wantErr(t, err, context.DeadlineExceeded)
		if attempts < 4 {
			t.Errorf("%d attempts in two session timeouts; want four at least", attempts)
		}
	})
}

// Every address of every name is tried once per round. Each client begins with another address.
// The family that the system prefers comes first.
func TestAddressesOfANameAreTriedInRandomOrder(t *testing.T) {
	firsts := make(map[string]bool)
	synctest.Test(t, func(t *testing.T) {
		want := []string{"10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7", "10.1.0.1:8", "[2001:db8::1]:8", "10.2.0.1:9"}
		for range 300 { // with 100, one run in 10,000 would miss an address
			var tried []string
			ctx, cancel := context.WithCancel(t.Context())
			names(t, map[string][]string{"a": {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3"}, "b": {"2001:db8::1", "10.1.0.1"}},
				func(_ context.Context, network, addr string) (net.Conn, error) {
					if tried = append(tried, addr); len(tried) == 3*len(want) {
						cancel()
					}
					return nil, errors.New("down")
				})
			_, err := Dial(ctx, Config{Servers: []string{"a:7", "b:8", "10.2.0.1:9"}})
			wantErr(t, err, context.Canceled)
			firsts[tried[0]] = true
			for round := range slices.Chunk(tried, len(want)) {
				if i := slices.Index(round, "10.1.0.1:8"); slices.Index(round, "[2001:db8::1]:8") > i {
					t.Errorf("tried %v; want IPv6 first, as the resolver has it", round)
				}
				if slices.Sort(round); !slices.Equal(round, slices.Sorted(slices.Values(want))) {
					t.Errorf("a round is %v; want all of %v", round, want)
				}
			}
		}
	})
	if len(firsts) != 5 {
		t.Errorf("clients began with %v; want each of five", firsts)
	}
}

// A planned re-attach goes to the same address.
func TestPlannedReattachGoesToTheSameAddressFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		serve := dialPeers(t, m.serve)
		var mu sync.Mutex
		var tried []string
		names(t, map[string][]string{"zk": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}}, func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, addr)
			return serve(ctx, network, addr)
		})
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, SessionTimeout: leaseTimeout})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 3 {
			time.Sleep(time.Hour)
			lease(t, mustSession(t, c)).Release()
		}
		mu.Lock()
		defer mu.Unlock()
		if len(tried) != 4 || len(slices.Compact(slices.Clone(tried))) != 1 {
			t.Errorf("tried %v; want one address four times", tried)
		}
	})
}

// The error of a failed attempt names the address and the cause.
func TestFailedAttemptNamesAddressAndCause(t *testing.T) {
	for _, tt := range []struct {
		name, server string
		dial         func(ctx context.Context, network, addr string) (net.Conn, error)
		want         []string
	}{
		{"refused", "zk:7", func(_ context.Context, network, addr string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)), Err: errors.New("connection refused")}
		}, []string{"zk:7", "10.0.0.1:7", "connection refused"}},
		{"hung up on", "zk:7", func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			theirs.Close()
			return ours, nil
		}, []string{"zk:7", "10.0.0.1:7", "handshake"}},
		{"unknown name", "nobody:7", nil, []string{"nobody:7", "no such host"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				names(t, map[string][]string{"zk": {"10.0.0.1"}}, tt.dial)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := Dial(ctx, Config{Servers: []string{tt.server}})
				for _, want := range tt.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not say %q", err, want)
					}
				}
			})
		})
	}
}

// The certificate must be for the name, whatever its address is.
func TestTLSVerifiesTheNameAndNotItsAddress(t *testing.T) {
	ca := newAuthority(t)
	addr := listenPeers(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"zk.test"} })}}, serveSession)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	names(t, map[string][]string{"zk.test": {"127.0.0.1"}, "other.test": {"127.0.0.1"}}, dialAddr)
	c, err := Dial(t.Context(), Config{Servers: []string{"zk.test:" + port}, TLS: &tls.Config{RootCAs: ca.pool()}})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, err = Dial(t.Context(), Config{Servers: []string{"other.test:" + port}, TLS: &tls.Config{RootCAs: ca.pool()}})
	var distrust *tls.CertificateVerificationError
	if !errors.As(err, &distrust) || !strings.Contains(err.Error(), "other.test") {
		t.Errorf("got %v; want an error about a certificate for another name", err)
	}
}

// A connection has lasted for an hour. Its name's other addresses may belong to other machines
// now. So the client looks the name up again before the next attempt.
func TestNameIsLookedUpAgainAfterAConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(ensembleConfig)
		cut := make(chan struct{})
		serve := dialPeers(t, cutting(cut, m.serve), m.serve)
		var mu sync.Mutex
		var tried []string
		hosts := map[string][]string{"zk": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}}
		names(t, hosts, func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, addr)
			return serve(ctx, network, addr)
		})
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, SessionTimeout: leaseTimeout})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(time.Hour)
		hosts["zk"] = []string{"10.9.0.1"}
		close(cut)
		time.Sleep(time.Second)
		lease(t, mustSession(t, c)).Release()
		mu.Lock()
		defer mu.Unlock()
		if len(tried) < 2 || tried[1] != "10.9.0.1:2181" {
			t.Errorf("tried %v; want 10.9.0.1 after the first", tried)
		}
	})
}
