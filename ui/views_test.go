package ui

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

// Groups are the prefixes that several names share, and not all of them.
func TestGroups(t *testing.T) {
	var rows []row
	for _, name := range []string{"/else/a/x", "/else/a/y", "db/a", "db/b/c", "db/b/d", "one/x", "top"} {
		rows = append(rows, row{Name: name, Taken: name != "db/a", Waiters: len(name) % 2})
	}
	href := func(in string) string { return "in=" + in }
	for in, want := range map[string]string{
		"":       "[{db/ in=db/ 3 2 0} {/else/ in=/else/ 2 2 2}]",
		"db/":    "[{db/b/ in=db/b/ 2 2 0}]",
		"/else/": "[]", // one group of all
		"db/b/":  "[]",
	} {
		var some []row
		for _, x := range rows {
			if strings.HasPrefix(x.Name, in) {
				some = append(some, x)
			}
		}
		if got, more := groups(some, in, href); fmt.Sprint(got) != want || more != 0 {
			t.Errorf("in %q: %v and %d more; want %s", in, got, more, want)
		}
	}
	rows = nil
	for i := range 3 * groupsOnPage {
		rows = append(rows, row{Name: fmt.Sprintf("g%d/a", i)}, row{Name: fmt.Sprintf("g%d/b", i)})
	}
	if got, more := groups(rows, "", href); len(got) != groupsOnPage || more != 2*groupsOnPage {
		t.Errorf("%d groups and %d more", len(got), more)
	}
}

// An address without a page, a method that no page takes and a request of another site get a page as well.
func TestErrorsHaveAPage(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	u, err := New(Config{Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, tt := range []struct {
		method, path, site string
		status             int
		want               string
	}{
		{"GET", "/nothing/here", "", 404, `<link rel="stylesheet" href="../assets/ui.css">`}, {"GET", "/nothing", "", 404, `<h1>No such page</h1>`},
		{"GET", "/a//b", "", 404, `<a href="../../">Overview</a>`}, {"GET", "/assets", "", 404, `<h1>No such page</h1>`},
		{"POST", "/locks", "", 405, "this page takes no POST"}, {"POST", "/theme", "cross-site", 403, "the request comes from another site"},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header.Set("Cookie", "holdfast_theme=dark")
		r.Header.Set("Sec-Fetch-Site", tt.site)
		w := httptest.NewRecorder()
		u.ServeHTTP(w, r)
		if text := w.Body.String(); w.Code != tt.status || !strings.Contains(text, tt.want) || !strings.Contains(text, `data-theme="dark"`) || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, w.Code, text)
		}
	}
}

// A tab that is closed while it reads the audit does not make others see that no server answers.
func TestAClosedTabIsNoSilentServer(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	u, err := New(Config{Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.audit(httptest.NewRequestWithContext(ctx, "GET", "/audit", nil), view{}, &frame{})
	var f frame
	u.audit(httptest.NewRequestWithContext(t.Context(), "GET", "/audit", nil), view{}, &f)
	if why := f.Body.(auditBody).Why; why != "" {
		t.Error(why)
	}
}

// A node that the page may not read is no lock since 1970: it says that it cannot be read, and no number counts it.
func TestUnreadableNodesAreSaidToBe(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	admin := srv.Client()
	for _, path := range []string{"/locks", "/locks/db"} {
		if _, _, err := admin.Create(t.Context(), path, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	secret := zk.ACL{Perms: zk.PermDelete, Scheme: "world", ID: "anyone"}
	for _, name := range []string{"lock-0000000000", "lock-0000000001"} {
		if _, _, err := admin.Create(t.Context(), "/locks/db/_c_0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c-"+name, nil, zk.Ephemeral, secret); err != nil {
			t.Fatal(err)
		}
	}
	u, err := New(Config{Client: srv.Client(), Prefix: "/locks/", Namespace: "/locks"})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for !u.state.view().contact.Loaded {
		time.Sleep(time.Millisecond)
	}
	for _, path := range []string{"/", "/locks", "/lock?path=/locks/db", "/graph", "/sessions"} {
		w := httptest.NewRecorder()
		u.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if text := w.Body.String(); w.Code != 200 || strings.Contains(text, "1970") || strings.Contains(text, "0001-01-01") || regexp.MustCompile(`\d{4,}d`).MatchString(text) {
			t.Errorf("%s: %d %s", path, w.Code, text)
		} else if strings.HasPrefix(path, "/lock") && !strings.Contains(text, "cannot be read") {
			t.Errorf("%s does not say that a node cannot be read: %s", path, text)
		}
	}
	v := u.state.view()
	if len(v.locks) != 1 {
		t.Fatalf("%d locks", len(v.locks))
	}
	if held, _ := tally(v.locks); held != 0 {
		t.Errorf("%d locks are held", held)
	}
	if r := u.row(v.locks[0]); !r.Since.IsZero() || !r.Oldest.IsZero() || r.Owner != unreadable || r.Waiters != 1 || r.State != "unreadable" || r.Taken {
		t.Errorf("%+v", r)
	}
}
