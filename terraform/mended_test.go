package terraform_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/terraform"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// begin sends the head and a part of a request with a state. The result sends the rest and returns the answer.
func (c *client) begin(method, url string, body []byte) (end func() answer) {
	c.t.Helper()
	r, feed := io.Pipe()
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, r)
	if err != nil {
		c.t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	answered := make(chan answer, 1)
	go func() {
		resp, err := c.http.Do(req)
		if err != nil {
			answered <- answer{body: []byte(err.Error())}
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answered <- answer{status: resp.StatusCode, body: text}
	}()
	half := len(body) / 2
	if _, err := feed.Write(body[:half]); err != nil { // the server has read it
		c.t.Fatal(err)
	}
	return func() answer {
		c.t.Helper()
		feed.Write(body[half:]) // a refusal may have come before
		feed.Close()
		return <-answered
	}
}

// A POST without an ID is under way while somebody takes the lock. Its state is refused, and that of the holder is
// stored.
func TestPostWithoutALockMeetsAHolder(t *testing.T) {
	b := newBackend(t)
	b.client("run0").run(1)
	end := b.client("").begin("POST", b.http.URL+"/tf/app/default", state(2, strings.Repeat("no lock", 100_000)))
	holder := b.client("run1")
	want(t, "LOCK in the middle", holder.lock(), 200)
	if h := want(t, "POST without an ID", end(), 423).holder(t); h.ID != "run1" {
		t.Errorf("%+v", h)
	}
	want(t, "POST of the holder", holder.post(state(2, "run1")), 200)
	want(t, "UNLOCK", holder.unlock(), 200)
	b.isFine(2, "run1")
}

// Nobody takes the lock while the transaction of a request without an ID is on its way.
func TestNobodyLocksInTheMiddleOfARequest(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		for _, method := range []string{"POST", "DELETE"} {
			b := newBackend(t, func(c *terraform.Config) { c.Ephemeral = ephemeral })
			b.client("run0").run(1)
			other := newBackendOn(t, b.zk)
			var locked atomic.Int64
			b.zk.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
				if strings.Contains(path, "/lock/") && !strings.Contains(path, "detaching-") && locked.CompareAndSwap(0, 1) {
					locked.Store(int64(other.client("run1").lock().status))
				}
				return zktest.Pass
			})
			var body []byte
			if method == "POST" {
				body = state(2, "two")
			}
			want(t, method, b.client("").do(method, b.http.URL+"/tf/app/default", body), 200)
			b.zk.Intercept(zkproto.OpMulti, nil)
			if got := locked.Load(); got != 423 {
				t.Errorf("%s: LOCK in the middle is answered with %d; want 423", method, got)
			}
			want(t, "LOCK afterwards", b.client("run2").lock(), 200)
		}
	}
}

// The process is killed while a request without an ID has the lock for its moment. The lock expires, for the next run and for
// the next request without an ID.
func TestKilledInTheMomentOfALock(t *testing.T) {
	for _, method := range []string{"POST", "DELETE"} {
		for _, next := range []string{"LOCK", "POST"} {
			var c *zk.Client
			b := newBackend(t, func(cfg *terraform.Config) { c = cfg.Client })
			b.client("run0").run(1)
			var once sync.Once
			killed := make(chan struct{})
			b.zk.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
				if !strings.Contains(path, "/lock/") || strings.Contains(path, "detaching-") {
					return zktest.Pass
				}
				once.Do(func() {
					go func() {
						_ = c.Close()
						close(killed)
					}()
				})
				return zktest.DropRequest
			})
			b.client("").do(method, b.http.URL+"/tf/app/default", state(2, "two"))
			<-killed
			b.zk.Intercept(zkproto.OpMulti, nil)
			other := newBackendOn(t, b.zk)
			try := func() answer {
				if next == "LOCK" {
					return other.client("run1").lock()
				}
				return other.client("").do("POST", other.http.URL+"/tf/app/default", state(2, "two"))
			}
			if h := want(t, next+" at once", try(), 423).holder(t); h.Who != "a client without a lock" {
				t.Errorf("%+v", h)
			}
			b.zk.MoveClock(2 * time.Minute)
			want(t, next+" after "+method, try(), 200)
		}
	}
}

// A POST without an ID is under way while a run begins, fails to store its state and ends.
func TestPostWithoutALockFindsADirtyWorkspace(t *testing.T) {
	b := newBackend(t)
	end := b.client("").begin("POST", b.http.URL+"/tf/app/default", state(6, strings.Repeat("no lock", 100_000)))
	b.refused()
	if a := end(); a.status != 423 {
		t.Errorf("POST without an ID: %v; want 423", a)
	}
	if got := want(t, "GET", b.client("x").get(), 200); !bytes.Equal(got.body, state(5, "five")) {
		t.Errorf("the state is %.100s", got.body)
	}
}

// init -migrate-state writes over a state that exists: the client has asked its user. The next run goes on.
func TestMigrationReplacesAState(t *testing.T) {
	other := func(serial int) []byte {
		return bytes.Replace(state(serial, "migrated"), []byte(`"l1"`), []byte(`"l2"`), 1)
	}
	for name, before := range map[string][]byte{"state": state(5, "five"), "empty, after destroy": state(9, "")} {
		for what, migrated := range map[string][]byte{"another lineage": other(3), "an older serial": state(2, "migrated"), "the same serial": state(5, "migrated")} {
			t.Run(name+"/"+what, func(t *testing.T) {
				b := newBackend(t)
				c := b.client("run0")
				want(t, "LOCK", c.lock(), 200)
				want(t, "POST", c.post(before), 200)
				want(t, "UNLOCK", c.unlock(), 200)
				m := b.client("migration")
				m.info.Operation = "migration destination state"
				want(t, "LOCK", m.lock(), 200)
				want(t, "POST", m.post(migrated), 200)
				want(t, "UNLOCK", m.unlock(), 200)
				if got := want(t, "GET", m.get(), 200); !bytes.Equal(got.body, migrated) {
					t.Errorf("the state is %s", got.body)
				}
				want(t, "LOCK of the next", b.client("run1").lock(), 200)
			})
		}
	}
	b := newBackend(t)
	b.refused()
	m := b.client("migration")
	m.info.Operation = "migration destination state"
	want(t, "LOCK of a migration onto a dirty workspace", m.lock(), 423)
}

// What cannot be a state is refused by name, and nothing of it is stored.
func TestWhatIsNoStateIsRefused(t *testing.T) {
	b := newBackend(t)
	for body, why := range map[string]string{
		`null`: "no serial", `{}`: "no serial", `{"a":1}`: "no serial", `{"serial":null,"lineage":"x"}`: "no serial", `{"lineage":"x"}`: "no serial",
		`[]`: "no state", `1`: "no state", `"x"`: "no state", ``: "no state", `{"serial":1`: "no state", `{"serial":"1"}`: "no state",
		`{"serial":1.5}`: "no state", `{"serial":99999999999999999999}`: "no state", `{"serial":-1}`: "serial",
		`{"serial":1,"lineage":"` + strings.Repeat("x", 1_500_000) + `"}`: "lineage has 1500000 bytes",
	} {
		c := b.client("run1")
		want(t, "LOCK", c.lock(), 200)
		if a := want(t, "POST", c.post([]byte(body)), 400); !strings.Contains(string(a.body), why) {
			t.Errorf("%.40s: %s; want %q", body, a.body, why)
		}
		want(t, "GET", c.get(), 404)
		want(t, "POST without a lock", b.client("").do("POST", c.base, []byte(body)), 423) // somebody holds it
		want(t, "POST of a state", c.post([]byte(`{"serial":7}`)), 200)
		want(t, "UNLOCK", c.unlock(), 200)
		want(t, "POST without a lock", b.client("").do("POST", c.base, []byte(body)), 400)
		want(t, "DELETE", c.do("DELETE", c.base, nil), 200)
	}
}

// The index of the versions stays below the size of a node, however long what the clients send is.
func TestIndexStaysSmall(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.Versions = 500 })
	c := b.client(strings.Repeat("\x01", 256))
	c.info.Who = strings.Repeat("\x01", 1000)
	want(t, "LOCK", c.lock(), 200)
	lineage := strings.Repeat(`\u0001`, 256)
	for i := range 130 {
		s := []byte(`{"serial":` + strconv.Itoa(i) + `,"lineage":"` + lineage + `"}`)
		want(t, "POST", c.do("POST", c.base+"?ID="+strings.Repeat("%01", 256), s), 200)
	}
	data, _, err := b.zk.Client().Get(t.Context(), "/tf/app/default/state")
	if err != nil || len(data) > 900_000 {
		t.Errorf("the index has %d bytes, %v", len(data), err)
	}
	if got := want(t, "GET", c.get(), 200); !bytes.Contains(got.body, []byte(`"serial":129,`)) {
		t.Errorf("the state is %.40s", got.body)
	}
}

// The server's clock is set while an upload is under way, and another upload sweeps what interrupted ones have left. The
// running one is none of them.
func TestSweepUnderAClockThatMoves(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			b := newBackend(t)
			run := b.client("run1")
			want(t, "LOCK", run.lock(), 200)
			want(t, "POST", run.post(state(1, "one")), 200)
			other := newBackendOn(t, b.zk) // the client has sent its request again, to another process
			if by < 0 {
				b.zk.MoveClock(by)
			}
			var once atomic.Bool
			b.zk.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
				if strings.Contains(path, "/lock/") && once.CompareAndSwap(false, true) { // the version is written
					if by > 0 {
						b.zk.MoveClock(by)
					}
					want(t, "POST at another", other.client("run1").post(state(2, "two")), 200)
				}
				return zktest.Pass
			})
			a := run.post(state(3, "three"))
			b.zk.Intercept(zkproto.OpMulti, nil)
			if a.status != 200 { // swept: the client sends it again
				want(t, "POST", a, 503)
				want(t, "POST again", run.post(state(3, "three")), 200)
			} else if by > 0 {
				t.Error("the bytes are gone, and the version is stored")
			}
			if got := want(t, "GET", run.get(), 200); !bytes.Equal(got.body, state(3, "three")) {
				t.Errorf("the state is %s", got.body)
			}
		})
	}
}

// Somebody freezes a workspace while a client waits for its lock. The client does not get the lock.
func TestFreezeDuringTheWait(t *testing.T) {
	for _, project := range []bool{false, true} {
		b := newBackend(t)
		holder, waiter := b.client("run1"), b.client("run2")
		want(t, "LOCK", holder.lock(), 200)
		want(t, "first LOCK of the waiter", waiter.lock(), 423)
		got := make(chan answer)
		go func() {
			a, err := waiter.try(t.Context(), "LOCK", waiter.base+"/lock", waiter.json())
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		c := b.zk.Client()
		for n := 0; n < 2; { // until it stands in the queue
			names, _, err := c.Children(t.Context(), "/tf/app/default/lock")
			if err != nil {
				t.Fatal(err)
			}
			n = len(names)
		}
		ws := b.ws()
		if project {
			ws.Name = ""
		}
		if err := b.Freeze(t.Context(), ws, terraform.Freeze{Reason: "audit", By: "carol"}); err != nil {
			t.Fatal(err)
		}
		want(t, "UNLOCK", holder.unlock(), 200)
		if a := <-got; a.status != 423 || !strings.Contains(string(a.body), "frozen") {
			t.Errorf("LOCK: %v; want 423", a)
		}
	}
}

// After a change of the credentials, only the present ones count, also for requests that are under way.
func TestSetCredentials(t *testing.T) {
	credentials := func(users, tokens string) (c terraform.Credentials) {
		if err := c.ParseUsers(users); err != nil {
			t.Fatal(err)
		}
		if err := c.ParseTokens(tokens); err != nil {
			t.Fatal(err)
		}
		return c
	}
	alicesLine := userLine(t, "alice", "s3cret:x")
	b := newBackend(t, func(c *terraform.Config) {
		c.Credentials = credentials(alicesLine+"\n"+userLine(t, "bob", "hunter22"), "0123456789abcdef\nfedcba9876543210")
		c.Poll = patience
	})
	as := func(header string) func(id string) answer {
		return func(id string) answer {
			c := b.client(id)
			return c.do("LOCK", c.base+"/lock", c.json(), "Authorization", header)
		}
	}
	alice, bob := as("Basic YWxpY2U6czNjcmV0Ong="), as("Basic Ym9iOmh1bnRlcjIy")
	first, second := as("Bearer 0123456789abcdef"), as("Bearer fedcba9876543210")
	want(t, "LOCK", alice("run1"), 200)
	want(t, "first LOCK of bob", bob("run2"), 423)
	want(t, "first LOCK with the second token", second("run3"), 423)
	waits := make(chan answer, 2)
	for id, who := range map[string]func(string) answer{"run2": bob, "run3": second} {
		go func() { waits <- who(id) }()
	}
	c := b.zk.Client()
	for n := 0; n < 2; { // until one of them stands in the queue
		names, _, err := c.Children(t.Context(), "/tf/app/default/lock")
		if err != nil {
			t.Fatal(err)
		}
		n = len(names)
	}
	if err := b.SetCredentials(terraform.Credentials{}); err == nil {
		t.Error("a backend with credentials loses them")
	}
	if err := b.SetCredentials(credentials(alicesLine, "0123456789abcdef")); err != nil {
		t.Fatal(err)
	}
	holder := b.client("run1")
	want(t, "UNLOCK", holder.do("UNLOCK", holder.base+"/lock", holder.json(), "Authorization", "Basic YWxpY2U6czNjcmV0Ong="), 200)
	for range 2 {
		if a := <-waits; a.status == 200 {
			t.Fatalf("LOCK that waits: %v", a)
		}
	}
	want(t, "bob", bob("run2"), 401)
	want(t, "second token", second("run3"), 401)
	want(t, "first token", first("run4"), 200)
	if err := newBackend(t).SetCredentials(credentials(alicesLine, "0123456789abcdef")); err == nil {
		t.Error("a backend without credentials gets some")
	}
}
