package terraform_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/terraform"
	"holdfast/zk"
)

// begin sends the beginning of a request and leaves its connection open.
func (b *backend) begin(text string) net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.http.Listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := io.WriteString(c, text); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// POSTs whose bodies arrive byte by byte keep no other state from being stored.
func TestSlowUploadsLeaveOthersTheirTurns(t *testing.T) {
	var entered atomic.Int64
	b := newBackend(t, func(c *terraform.Config) {
		c.Admitted = func(*http.Request, ...string) bool { entered.Add(1); return true }
	})
	var slow []net.Conn
	for i := range 8 {
		c := b.begin(fmt.Sprintf("POST /tf/app/slow%d HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{", i))
		slow = append(slow, c)
		go func() {
			for range 100 {
				time.Sleep(time.Second)
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
			}
		}()
	}
	for entered.Load() < 8 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // until those that can get a turn have it
	c := b.client("a1")
	want(t, "LOCK", c.lock(), 200)
	want(t, "POST", c.post(state(1, "one")), 200)
	want(t, "DELETE", c.do("DELETE", c.base+"?ID=a1", nil), 200)
	want(t, "UNLOCK", c.unlock(), 200)
	for _, c := range slow { // otherwise the state has waited for their end
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a slow upload has ended: %d, %v", n, err)
		}
	}
}

// Clients that do not read a large state keep nobody from reading.
func TestSlowDownloadsLeaveOthersTheirTurns(t *testing.T) {
	b := newBackend(t)
	c := b.client("a1")
	want(t, "LOCK", c.lock(), 200)
	want(t, "POST", c.post(incompressible(1, 8<<20)), 200)
	for range 5 {
		slow := b.begin("GET /tf/app/default HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		_ = slow.SetReadDeadline(time.Now().Add(patience / 2))
		if line, err := bufio.NewReaderSize(slow, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := c.try(ctx, "GET", c.base, nil); err != nil || len(got.body) < 8<<20 {
		t.Errorf("%v, %d bytes", err, len(got.body))
	}
}

// One user with many large states on the way takes the memory of nobody else.
func TestUploadsAreShared(t *testing.T) {
	var cred terraform.Credentials
	if err := cred.ParseUsers(userLine(t, "eve", "s3cret:x") + "\n" + userLine(t, "bob", "hunter22")); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, func(c *terraform.Config) { c.Credentials, c.MaxState = cred, 1<<20 }) // so 4 MiB are for all
	bob, eve := basic("bob", "hunter22"), basic("eve", "s3cret:x")
	c := b.client("a1")
	want(t, "LOCK", c.do("LOCK", c.base+"/lock", c.json(), "Authorization", bob), 200)
	part := strings.Repeat(" ", 900<<10)
	refused := make(chan string, 16)
	for i := range 8 {
		slow := b.begin(fmt.Sprintf("POST /tf/app/slow%d HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: %s\r\nContent-Length: 1000000\r\n\r\n%s", i, eve, part))
		go func() {
			line, _ := bufio.NewReader(slow).ReadString('\n')
			refused <- line
		}()
	}
	for range 4 { // the rest fits
		if line := <-refused; !strings.Contains(line, "503") {
			t.Errorf("one upload too many: %q", line)
		}
	}
	large := state(1, strings.Repeat("x", 900<<10))
	want(t, "POST", c.do("POST", c.base+"?ID=a1", large, "Authorization", bob), 200)
	if line := <-refused; !strings.Contains(line, "503") {
		t.Errorf("the upload that gave way: %q", line)
	}
}

// A user with a LOCK too many waits no longer. The others do.
func TestWaitersAreShared(t *testing.T) {
	var cred terraform.Credentials
	if err := cred.ParseUsers(userLine(t, "eve", "s3cret:x") + "\n" + userLine(t, "bob", "hunter22")); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, func(c *terraform.Config) { c.Credentials, c.MaxWaiters, c.Poll = cred, 4, time.Minute })
	lock := func(id, who string) answer {
		c := b.client(id)
		return c.do("LOCK", c.base+"/lock", c.json(), "Authorization", who)
	}
	want(t, "LOCK", lock("h", basic("bob", "hunter22")), 200)
	eve := make(chan answer, 16)
	for i := range 6 {
		id := fmt.Sprint("e", i)
		want(t, "LOCK", lock(id, basic("eve", "s3cret:x")), 423)
		go func() { eve <- lock(id, basic("eve", "s3cret:x")) }()
	}
	for range 2 {
		want(t, "a waiter too many", <-eve, 423)
	}
	want(t, "LOCK", lock("b", basic("bob", "hunter22")), 423)
	bob := make(chan answer, 1)
	go func() { bob <- lock("b", basic("bob", "hunter22")) }()
	want(t, "a waiter that gives way", <-eve, 423)
	select {
	case a := <-bob:
		t.Errorf("bob waits no longer: %v", a)
	default:
	}
	b.Backend.Close()
	want(t, "bob at the end", <-bob, 423)
	for range 3 {
		want(t, "eve at the end", <-eve, 423)
	}
}

// Many addresses guess without a pause. A user whose password was never checked before is let in before them.
func TestALoginDoesNotWaitForGuessers(t *testing.T) {
	var cred terraform.Credentials
	if err := cred.ParseUsers(userLine(t, "alice", "s3cret:x") + "\n" + userLine(t, "bob", "hunter22")); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, func(c *terraform.Config) { c.Credentials = cred })
	ctx, over := context.WithCancel(t.Context())
	ask := func(ctx context.Context, address, user, password string) int {
		r := httptest.NewRequestWithContext(ctx, "GET", "/tf/app/default", nil)
		r.RemoteAddr = address
		r.SetBasicAuth(user, password)
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		return w.Code
	}
	var guesses atomic.Int64
	var crowd, first sync.WaitGroup
	for i := range 20 {
		first.Add(1)
		crowd.Go(func() {
			once := sync.OnceFunc(first.Done)
			defer once()
			for range 20 {
				if ask(ctx, fmt.Sprintf("198.51.100.%d:4000", i), fmt.Sprint("user", i), "guess") == 401 {
					guesses.Add(1)
				}
				once()
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	first.Wait()
	before := guesses.Load()
	if code := ask(t.Context(), "192.0.2.1:4000", "alice", "s3cret:x"); code != 404 {
		t.Errorf("alice: %d", code)
	}
	if n := guesses.Load() - before; n > 8 {
		t.Errorf("%d guesses were hashed before the login; want a few", n)
	}
	over()
	crowd.Wait()
}

// A doorway is a Backend that needs no server: it keeps no states, so whoever is admitted gets 501.
type doorway struct {
	t *testing.T
	*terraform.Backend
	said bytes.Buffer
}

func newDoorway(t *testing.T, cred terraform.Credentials, edit ...func(*terraform.Config)) *doorway {
	d := &doorway{t: t}
	cfg := terraform.Config{Client: new(zk.Client), LocksOnly: true, Credentials: cred, Logger: slog.New(slog.NewTextHandler(&d.said, nil))}
	for _, e := range edit {
		e(&cfg)
	}
	var err error
	if d.Backend, err = terraform.New(cfg); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *doorway) get(authorization string) int {
	r := httptest.NewRequestWithContext(d.t.Context(), "GET", "/tf/app/default", nil)
	r.Header.Set("Authorization", authorization)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if (w.Code == 429) != (w.Header().Get("Retry-After") != "") {
		d.t.Errorf("%d with %v", w.Code, w.Header())
	}
	return w.Code
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Guesses from one address have to wait, also with the right password of another user. A client whose password was right
// before waits only for guesses at its own name: otherwise its password could be guessed without a delay.
func TestGuessesHaveToWait(t *testing.T) {
	var cred terraform.Credentials
	if err := cred.ParseUsers(userLine(t, "alice", "s3cret:x") + "\n" + userLine(t, "bob", "hunter22")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		admitted := 0
		d := newDoorway(t, cred, func(c *terraform.Config) {
			c.Admitted = func(*http.Request, ...string) bool { admitted++; return true }
		})
		guesses := func(user string) (n int) {
			for n < 20 && d.get(basic(user, "guess")) == 401 {
				n++
			}
			return n
		}
		alice, bob := basic("alice", "s3cret:x"), basic("bob", "hunter22")
		steps := []int{d.get(alice), guesses("bob"), d.get(bob), d.get(alice), guesses("alice"), d.get(alice)}
		if want := []int{501, 5, 429, 501, 5, 429}; !slices.Equal(steps, want) {
			t.Errorf("alice, guesses at bob, bob, alice, guesses at alice, alice: %v; want %v", steps, want)
		}
		if admitted != 2 {
			t.Errorf("%d requests admitted; want 2", admitted)
		}
		if text := d.said.String(); strings.Count(text, `"terraform: login refused" name=`) != 10 || strings.Contains(text, "guess") || strings.Contains(text, "s3cret") {
			t.Errorf("the log has %s", text)
		}
		time.Sleep(time.Second)
		if code := d.get(alice); code != 501 {
			t.Errorf("alice after the wait: %d", code)
		}
	})
}

// Guesses at tokens have to wait. A right token goes on where it was used before.
func TestGuessesAtTokensHaveToWait(t *testing.T) {
	var cred terraform.Credentials
	if err := cred.ParseTokens("0123456789abcdef0\n0123456789abcdef1\n"); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, cred)
		steps := []int{d.get("Bearer 0123456789abcdef0")}
		for i := range 6 {
			steps = append(steps, d.get(fmt.Sprint("Bearer guess", i)))
		}
		steps = append(steps, d.get("Bearer 0123456789abcdef1"), d.get("Bearer 0123456789abcdef0"))
		if want := []int{501, 401, 401, 401, 401, 401, 429, 429, 501}; !slices.Equal(steps, want) {
			t.Errorf("a token, six guesses, another token, the token in use: %v; want %v", steps, want)
		}
	})
}
