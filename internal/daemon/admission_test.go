package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A remoteConn comes from an address.
type remoteConn struct {
	net.Conn
	from net.Addr
}

func (c remoteConn) RemoteAddr() net.Addr { return c.from }

// dialFrom connects to a pipeListener from an address, and returns the client's end.
func dialFrom(t *testing.T, l pipeListener, ip net.IP) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	l <- remoteConn{theirs, &net.TCPAddr{IP: ip, Port: 40000}}
	t.Cleanup(func() { ours.Close() })
	return ours
}

func cut(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// A crowd that says nothing takes a quarter of the connections, and gives way: clients that are admitted keep
// theirs, and so does a newcomer from another address.
func TestNewcomersHaveAQuarterOfTheConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := make(pipeListener, 1)
		admitted := make(chan struct{})
		server := &http.Server{ConnContext: TrackConn, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				Admit(r)
				<-admitted
			}
		})}
		l := AdmissionListener(inner, 16)
		go func() { _ = server.Serve(l) }()
		crowd, honest := net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 2)
		send := func(c net.Conn, header string) {
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		user := dialFrom(t, inner, crowd)
		send(user, "Authorization: yes\r\n")
		other := dialFrom(t, inner, honest)
		synctest.Wait()
		var silent []net.Conn
		for range 40 {
			silent = append(silent, dialFrom(t, inner, crowd))
			synctest.Wait()
		}
		open := 0
		for i, c := range silent {
			if !cut(c) {
				open++
				if i < 37 {
					t.Errorf("the silent connection %d of 40 is open", i)
				}
			}
		}
		if open != 3 { // and the one from another address
			t.Errorf("%d silent connections are open; want 3", open)
		}
		send(other, "")
		if resp, err := http.ReadResponse(bufio.NewReader(other), nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("another address: %v", err)
		}
		close(admitted)
		_ = user.SetReadDeadline(time.Now().Add(time.Second))
		if resp, err := http.ReadResponse(bufio.NewReader(user), nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the client that was admitted: %v", err)
		}
		_ = server.Close()
	})
}

// One browser with 520 connections takes none of another one's, nor does one user at many addresses. Its own spare
// connections are closed first, then the newest.
func TestOneClientKeepsNobodyOut(t *testing.T) {
	for name, from := range map[string]func(i int) net.IP{
		"one address":    func(int) net.IP { return net.IPv4(192, 0, 2, 1) },
		"many addresses": func(i int) net.IP { return net.IPv4(198, 51, 100, byte(i)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := make(pipeListener, 1)
				hold := make(chan struct{})
				server := &http.Server{ConnContext: TrackConn, ConnState: TrackState, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !Admit(r, r.URL.Path) {
						return
					}
					if r.Method == http.MethodPost {
						<-hold
					}
				})}
				go func() { _ = server.Serve(AdmissionListener(inner, 512)) }()
				open := func(ip net.IP, method, user string) net.Conn {
					c := dialFrom(t, inner, ip)
					if _, err := io.WriteString(c, method+" /"+user+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
						t.Error(err)
					}
					if method == "GET" {
						if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
							t.Error(err)
						}
					}
					synctest.Wait()
					return c
				}
				honest := []net.Conn{open(net.IPv4(192, 0, 2, 1), "GET", "ann")}
				idle := open(from(0), "GET", "eve")
				var crowd []net.Conn
				for i := range 520 {
					crowd = append(crowd, open(from(i), "POST", "eve"))
				}
				for range 6 {
					honest = append(honest, open(net.IPv4(192, 0, 2, 1), "POST", "ann"))
				}
				for i, c := range honest {
					if cut(c) {
						t.Errorf("the connection %d of the other client is closed", i)
					}
				}
				left := 0
				for i, c := range crowd {
					if !cut(c) {
						if left++; i >= 377 {
							t.Errorf("the connection %d of the crowd is open", i)
						}
					}
				}
				if left != 377 || !cut(idle) { // with the 7 of the other client, three quarters of 512
					t.Errorf("%d connections of the crowd are open; the spare one is closed: %v", left, cut(idle))
				}
				close(hold)
				_ = server.Close()
			})
		})
	}
}

func TestNetwork(t *testing.T) {
	same := func(a, b string) bool {
		return network(&net.TCPAddr{IP: net.ParseIP(a)}) == network(&net.TCPAddr{IP: net.ParseIP(b)})
	}
	if !same("2001:db8::1", "2001:db8::ffff:2") || same("2001:db8::1", "2001:db8:0:1::1") || !same("::ffff:192.0.2.1", "192.0.2.1") || same("192.0.2.1", "192.0.2.2") {
		t.Error("networks differ from what one client has")
	}
	if network(&net.UnixAddr{}) != network(nil) {
		t.Error("sockets are not one client")
	}
	if ctx := TrackConn(context.Background(), nil); ctx != context.Background() {
		t.Error("a connection of another listener is tracked")
	}
}
