package history

import (
	"testing/synctest"

	"holdfast"
	"holdfast/zkproto"
	"testing"

	"holdfast/internal/deed"
	"holdfast/zk"
	"holdfast/zktest"
)

// history has the audit lines of its lock, and of no other. Other data at the audit's path are left alone.
func TestHistoryHasTheAuditLines(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	ctx := t.Context()
	for _, path := range []string{"/holdfast", deed.Path} {
		if _, _, err := c.Create(ctx, path, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		data    string
		want    int
		missing bool
	}{
		{"", 0, false}, {"not JSON", 0, true}, {`{"kind":"Other","items":[{"places":[{"path":"/locks/job"}]}]}`, 0, true},
		{`{"kind":"AuditLog","items":[
			{"at":"2026-11-20T09:30:00Z","action":"break","by":"ops@web1:9","reason":"stuck","outcome":"done","places":[{"path":"/locks/job","owner":"ann","token":"7"}]},
			{"at":"2026-11-20T09:31:00Z","action":"break","by":"ops@web1:9","places":[{"path":"/locks/jobs","owner":"bob","token":"8"}]}]}`, 1, false},
	} {
		if _, err := c.Set(ctx, deed.Path, []byte(tt.data), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		d := Document{Path: "/locks/job"}
		if err := d.read(ctx, c, nil); err != nil || len(d.Events) != tt.want || (d.AuditError != "") != tt.missing {
			t.Fatalf("%s: %+v, %v", tt.data, d.Events, err)
		}
		if tt.want == 1 {
			if e := d.Events[0]; e.Type != "break" || e.Owner != "ann" || e.Token != "7" || e.By != "ops@web1:9" || e.Why != "stuck" || e.Outcome != "done" {
				t.Errorf("got %+v", e)
			}
		}
	}
	if _, err := c.SetACL(ctx, deed.Path, []zk.ACL{{Perms: zk.PermWrite, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	d := Document{Path: "/locks/job"}
	if err := d.read(ctx, c, nil); err != nil || len(d.Events) != 0 || d.AuditError != "no permission to read it" {
		t.Errorf("without permission: %+v, %v", d, err)
	}
}

// The server throttles: the reads are sent again.
func TestHistoryOfAThrottlingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c := srv.Client()
		h, err := holdfast.NewSemaphore(c, "/locks/pool", 1).Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Unlock()
		for _, op := range []zkproto.Op{zkproto.OpMultiRead, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists} {
			n := 0
			srv.Intercept(op, func(string) zktest.Action {
				if n++; n <= 3 {
					return zktest.Throttle
				}
				return zktest.Pass
			})
		}
		d := Document{Path: "/locks/pool"}
		if err := d.read(t.Context(), c, nil); err != nil || d.Joined != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
