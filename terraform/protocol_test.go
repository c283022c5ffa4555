package terraform_test

import (
	"crypto/md5"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"holdfast/terraform"
)

// The table of what the clients send, and which answers they take.
func TestRunOfAClient(t *testing.T) {
	b := newBackend(t)
	c := b.client("a1")
	want(t, "GET without a state", c.get(), 404)
	want(t, "LOCK", c.lock(), 200) // 201 fails
	want(t, "POST", c.post(state(1, "one")), 200)
	got := want(t, "GET", c.get(), 200)
	if string(got.body) != string(state(1, "one")) {
		t.Errorf("GET returns %s", got.body)
	}
	sum := md5.Sum(got.body)
	if got.md5 != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("Content-MD5 is %q", got.md5)
	}
	want(t, "UNLOCK", c.unlock(), 200) // 204 fails
	want(t, "DELETE", c.do("DELETE", c.base, nil), 200)
	want(t, "GET after DELETE", c.get(), 404)
}

// Proxies drop the methods LOCK and UNLOCK: GitLab's form has POST and DELETE.
func TestLockWithPostAndDelete(t *testing.T) {
	b := newBackend(t)
	c := b.client("a1")
	for _, methods := range [][2]string{{"POST", "DELETE"}, {"PUT", "UNLOCK"}, {"LOCK", "DELETE"}} {
		want(t, methods[0], c.do(methods[0], c.base+"/lock", c.json()), 200)
		want(t, "LOCK of another", b.client("not-"+methods[0]).lock(), 423)
		want(t, methods[1], c.do(methods[1], c.base+"/lock", c.json()), 200)
	}
	want(t, "LOCK on the state's address", c.do("LOCK", c.base, c.json()), 200)
	want(t, "UNLOCK on the state's address", c.do("UNLOCK", c.base, c.json()), 200)
	want(t, "GET of the lock", c.do("GET", c.base+"/lock", nil), 405)
}

// Point 1: requests that are sent again are answered alike.
func TestRepeatedRequests(t *testing.T) {
	b := newBackend(t)
	c := b.client("a1")
	want(t, "UNLOCK of a free lock", c.unlock(), 200)
	for range 3 {
		want(t, "LOCK", c.lock(), 200)
	}
	for range 3 {
		want(t, "POST", c.post(state(1, "one")), 200)
	}
	if versions, err := b.History(t.Context(), b.ws()); err != nil || len(versions) != 1 {
		t.Errorf("%d versions, %v; want one", len(versions), err)
	}
	want(t, "UNLOCK", c.unlock(), 200)
	want(t, "UNLOCK again", c.unlock(), 200)
	want(t, "LOCK of another", b.client("b1").lock(), 200)
	want(t, "UNLOCK once more, while another has the lock", c.unlock(), 200)
	want(t, "POST of the other", b.client("b1").post(state(2, "two")), 200)
}

// Points 4 and 5: the answer is a LockInfo with an ID, and its Info tells what a user wants to know.
func TestHolderIsDescribed(t *testing.T) {
	b := newBackend(t)
	c := b.client("a1")
	c.info.Info = "ticket 7"
	want(t, "LOCK", c.lock(), 200)
	want(t, "POST", c.post(state(1, "one")), 200)
	h := want(t, "LOCK of another", b.client("b1").lock(), 423).holder(t)
	if h.ID != "a1" || h.Who != "alice@a1" || h.Operation != "OperationTypeApply" || h.Version != "1.11.4" || !h.Created.Equal(c.info.Created) {
		t.Errorf("%+v", h)
	}
	for _, part := range []string{"ticket 7; ", "held for 0s", "last write 0s ago", "0 waiting", "holdfast status /tf/app/default/lock"} {
		if !strings.Contains(strings.ReplaceAll(h.Info, "1s", "0s"), part) {
			t.Errorf("Info is %q, without %q", h.Info, part)
		}
	}
}

func TestPostNeedsTheLock(t *testing.T) {
	b := newBackend(t)
	c, other := b.client("a1"), b.client("b1")
	want(t, "POST without a lock and with an ID", c.post(state(1, "x")), 409)
	want(t, "POST without a lock and an ID", c.do("POST", c.base, state(1, "one")), 200) // -lock=false
	want(t, "LOCK", c.lock(), 200)
	if h := want(t, "POST without an ID", c.do("POST", c.base, state(2, "x")), 423).holder(t); h.ID != "a1" {
		t.Errorf("%+v", h)
	}
	want(t, "POST with a wrong ID", other.post(state(2, "x")), 409).holder(t)
	want(t, "DELETE without an ID", c.do("DELETE", c.base, nil), 423).holder(t)
	want(t, "UNLOCK with a wrong ID", other.unlock(), 409).holder(t)
	if got := c.get(); string(got.body) != string(state(1, "one")) {
		t.Errorf("the state is %s", got.body)
	}
	want(t, "POST", c.post(state(2, "two")), 200)
}

func TestBadStatesAreRefused(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.MaxState = 10000 })
	c := b.client("a1")
	want(t, "LOCK", c.lock(), 200)
	want(t, "POST", c.post(state(5, "five")), 200)
	post := func(body []byte, header ...string) answer {
		return c.do("POST", c.base+"?ID=a1", body, header...)
	}
	for _, bad := range []struct {
		what   string
		answer answer
		status int
	}{
		{"wrong MD5", post(state(6, "six"), "Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="), 400},
		{"no JSON", post([]byte("not a state")), 400},
		{"lower serial", post(state(4, "four")), 409},
		{"same serial, other state", post(state(5, "other")), 409},
		{"other lineage", post([]byte(strings.Replace(string(state(6, "six")), "l1", "l2", 1))), 409},
		{"too long", post(state(6, strings.Repeat("x", 20000))), 413},
	} {
		if bad.answer.status != bad.status {
			t.Errorf("%s: %v; want %d", bad.what, bad.answer, bad.status)
		}
	}
	if got := c.get(); string(got.body) != string(state(5, "five")) {
		t.Errorf("the state is %s", got.body)
	}
	want(t, "another lineage by force", c.do("POST", c.base+"?ID=a1&force=true", []byte(strings.Replace(string(state(1, "one")), "l1", "l2", 1))), 200)
}

func TestBadRequestsAreRefused(t *testing.T) {
	b := newBackend(t)
	c := b.client("a1")
	for _, bad := range []struct {
		method, url string
		body        []byte
		status      int
	}{
		{"LOCK", "/tf/app/default/lock", nil, 400},
		{"LOCK", "/tf/app/default/lock", []byte("{"), 400},
		{"LOCK", "/tf/app/default/lock", []byte(`{"ID":""}`), 400},
		{"LOCK", "/tf/app/default/lock", []byte(`{"ID":"` + strings.Repeat("x", 300) + `"}`), 400},
		{"LOCK", "/tf/app/default/lock", []byte(`{"ID":"x","Info":"` + strings.Repeat("x", 100000) + `"}`), 413},
		{"GET", "/tf/app", nil, 404},
		{"GET", "/tf/a%2fb/default", nil, 400},
		{"GET", "/tf/%2e%2e/default", nil, 400},
		{"GET", "/tf/app/.hidden", nil, 400},
		{"GET", "/tf/app/" + strings.Repeat("x", 200), nil, 400},
		{"PATCH", "/tf/app/default", nil, 405},
		{"GET", "/", nil, 404},
	} {
		if a := c.do(bad.method, b.http.URL+bad.url, bad.body); a.status != bad.status {
			t.Errorf("%s %.80s %.80s: %v; want %d", bad.method, bad.url, bad.body, a, bad.status)
		}
	}
	// A web page cannot use the user's browser.
	want(t, "request of a page", c.do("POST", c.base, state(1, "x"), "Origin", "https://evil.example"), http.StatusForbidden)
	r, _ := http.NewRequest("GET", c.base, nil)
	r.Host = "evil.example"
	resp, err := c.http.Do(r)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a rebound name: %v, %v", resp, err)
	}
}

// Point 6: OpenTofu's force-unlock sends the ID alone, Terraform's an empty body.
func TestForceUnlock(t *testing.T) {
	for _, c := range []struct {
		what, url, body string
		refuse          bool
		status          int
		audited         bool
	}{
		{"tofu", "", `{"ID":"a1","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`, true, 200, true},
		{"tofu, wrong id", "", `{"ID":"zz","Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`, false, 409, false},
		{"terraform", "", "", false, 200, true},
		{"terraform, refused", "", "", true, 409, false},
		{"terraform with the id in the address", "?ID=a1", "", true, 200, true},
		{"terraform with a wrong id in the address", "?ID=zz", "", false, 409, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			var events []terraform.Event
			b := newBackend(t, func(cfg *terraform.Config) {
				cfg.RefuseForceUnlock = c.refuse
				cfg.Audit = auditor(&events)
			})
			holder := b.client("a1")
			want(t, "LOCK", holder.lock(), 200)
			a := want(t, "force-unlock", holder.do("UNLOCK", holder.base+"/lock"+c.url, []byte(c.body)), c.status)
			if c.status == 409 {
				a.holder(t)
			}
			if got := len(events) == 1 && events[0].Entry.Owner == "alice@a1" && events[0].Path == "/tf/app/default/lock"; got != c.audited {
				t.Errorf("audit: %+v; want an event: %v", events, c.audited)
			}
			status := map[bool]int{true: 200, false: 423}[c.status == 200]
			want(t, "LOCK of another", b.client("b1").lock(), status)
			if c.status == 200 { // the run whose lock was taken away cannot write
				want(t, "POST", holder.post(state(1, "x")), 409)
				want(t, "POST of the new holder", b.client("b1").post(state(1, "new")), 200)
			}
		})
	}
}

func TestLocksOnly(t *testing.T) {
	b := newBackend(t, func(c *terraform.Config) { c.LocksOnly = true })
	c := b.client("a1")
	want(t, "LOCK", c.lock(), 200)
	want(t, "LOCK of another", b.client("b1").lock(), 423).holder(t)
	want(t, "GET", c.get(), 501)
	want(t, "POST", c.post(state(1, "x")), 501)
	want(t, "UNLOCK", c.unlock(), 200)
	want(t, "LOCK of another", b.client("b1").lock(), 200)
}

func TestCredentials(t *testing.T) {
	var cred terraform.Credentials
	if err := cred.ParseUsers("# ours\n" + userLine(t, "alice", "s3cret:x") + "\n\n" + userLine(t, "bob", "hunter22") + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := cred.ParseTokens("0123456789abcdef0\n"); err != nil {
		t.Fatal(err)
	}
	basic := func(u, p string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(u+":"+p)) }
	for _, try := range []struct {
		header string
		status int
	}{
		{basic("alice", "s3cret:x"), 404}, {basic("bob", "hunter22"), 404}, {"Bearer 0123456789abcdef0", 404}, {"bearer 0123456789abcdef0", 404},
		{"", 401}, {basic("alice", "hunter22"), 401}, {basic("alice", ""), 401}, {basic("", "s3cret:x"), 401},
		{basic("carol", "s3cret:x"), 401}, {"Bearer hunter22", 401}, {"Bearer ", 401}, {basic("x", "0123456789abcdef0"), 401},
	} {
		c := newBackend(t, func(c *terraform.Config) { c.Credentials = cred }).client("a1") // without earlier guesses
		if a := c.do("GET", c.base, nil, "Authorization", try.header); a.status != try.status {
			t.Errorf("%q: %v; want %d", try.header, a, try.status)
		}
	}
	for _, bad := range []string{"", "alice", ":x", "alice:s3cret", "# nobody"} {
		if err := new(terraform.Credentials).ParseUsers(bad); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseUsers(%q): %v", bad, err)
		}
	}
	for _, bad := range []string{"", "short", "# 0123456789abcdef"} {
		if err := new(terraform.Credentials).ParseTokens(bad); err == nil || strings.Contains(err.Error(), "short\"") {
			t.Errorf("ParseTokens(%q): %v", bad, err)
		}
	}
}

// A path that is not clean is refused. A redirect to the clean one would leave the path of a proxy, with the login of the client.
func TestPathsThatAreNotCleanAreRefused(t *testing.T) {
	b := newBackend(t)
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"//tf/app/default", "/tf//app/default/lock", "/tf/app/../app/default", "/tf/app/default/"} {
		for _, method := range []string{"GET", "POST", "LOCK", "UNLOCK", "DELETE"} {
			r, err := http.NewRequestWithContext(t.Context(), method, b.http.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Location") != "" {
				t.Errorf("%s %s: %d to %q", method, path, resp.StatusCode, resp.Header.Get("Location"))
			}
		}
	}
}
