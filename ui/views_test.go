package ui

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

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
	if r := u.row(v.locks[0]); !r.Since.IsZero() || !r.Oldest.IsZero() || r.Owner != unreadable || r.Waiters != 1 {
		t.Errorf("%+v", r)
	}
}
