package deed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func readAudit(t *testing.T, c *zk.Client) Log {
	t.Helper()
	data, _, err := c.Get(t.Context(), Path)
	if err != nil {
		t.Fatal(err)
	}
	var log Log
	if err := json.Unmarshal(data, &log); err != nil {
		t.Fatal(err)
	}
	return log
}

// Many write at one time: no line is lost, and a line is replaced by its outcome.
func TestAuditKeepsTheLinesOfAll(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer()
	defer srv.Close()
	const writers, lines = 4, 10
	var wg sync.WaitGroup
	for w := range writers {
		c := srv.Client()
		wg.Go(func() {
			for i := range lines {
				for _, outcome := range []string{"begun", "done"} {
					if err := write(t.Context(), c, Entry{ID: fmt.Sprint(w, "-", i), Outcome: outcome}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	log := readAudit(t, srv.Client())
	if log.Kind != "AuditLog" || log.APIVersion != apiVersion || len(log.Items) != writers*lines {
		t.Fatalf("%s %s with %d lines; want %d", log.APIVersion, log.Kind, len(log.Items), writers*lines)
	}
	for _, e := range log.Items {
		if e.Outcome != "done" {
			t.Errorf("line %s: %s", e.ID, e.Outcome)
		}
	}
}

// The audit is bounded in lines and in bytes, and keeps the latest.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	var places []holdfast.Entry
	for range 100 {
		places = append(places, holdfast.Entry{Owner: strings.Repeat("o", 1000), Reason: strings.Repeat("w", 1000)})
	}
	long := Entry{}.Of("/"+strings.Repeat("p", 1000), places...)
	for name, tt := range map[string]struct {
		line  Entry
		lines int
	}{"short": {Entry{Action: "break"}, Lines + 10}, "long": {long, 20}} {
		e := tt.line
		var data []byte
		var err error
		for i := range tt.lines {
			e.ID = fmt.Sprint(i)
			if data, err = withLine(data, e); err != nil {
				t.Fatal(err)
			}
			if len(data) > maxBytes {
				t.Fatalf("%s: %d bytes", name, len(data))
			}
		}
		var log Log
		if err := json.Unmarshal(data, &log); err != nil {
			t.Fatal(err)
		}
		if n := len(log.Items); n == 0 || n > Lines || log.Items[n-1].ID != fmt.Sprint(tt.lines-1) || n == tt.lines {
			t.Errorf("%s: %d lines", name, len(log.Items))
		}
	}
	huge := long
	for range 5 {
		huge.Places = append(huge.Places, huge.Places...)
	}
	if data, err := withLine(nil, huge); err != nil || len(data) > maxBytes {
		t.Errorf("one long line: %d bytes, %v", len(data), err)
	}
}

// Data of somebody else stay.
func TestAuditReplacesNoOtherData(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"mine", `{"kind":"Other"}`, "[]"} {
		if got, err := withLine([]byte(data), Entry{}); err == nil {
			t.Errorf("%q becomes %q", data, got)
		}
	}
}

// A place whose name another session has now stays, and so does what has gone: the others are removed together.
func TestTakeAwayLeavesOtherSessions(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer()
	defer srv.Close()
	victim, other, admin := srv.Client(), srv.Client(), srv.Client()
	for path, c := range map[string]*zk.Client{"/a": victim, "/b": victim, "/slot": other} {
		if _, _, err := c.Create(t.Context(), path, nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
	}
	session, err := victim.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var places []SessionPlace
	for _, path := range []string{"/a", "/slot", "/gone", "/b"} {
		places = append(places, SessionPlace{path, false, false, holdfast.Entry{Path: path}})
	}
	if n, err := takeAway(t.Context(), admin, session.ID(), places); n != 2 || err != nil {
		t.Errorf("%d places taken away, %v; want 2", n, err)
	}
	for path, want := range map[string]bool{"/a": false, "/b": false, "/slot": true} {
		if _, ok, err := admin.Exists(t.Context(), path); ok != want || err != nil {
			t.Errorf("%s exists: %v, %v; want %v", path, ok, err, want)
		}
	}
}

// The line is there before anything is done, and has the outcome afterwards.
func TestAuditLineComesFirst(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	for _, outcome := range []error{nil, errors.New("nobody has the token")} {
		e := Entry{Action: "break"}.Of("/holdfast/locks/db", holdfast.Entry{Owner: "ada", Token: 7, Held: true})
		r, err := Audited(t.Context(), c, e, By{"ops", "192.0.2.7:1234", "host is gone"}, func() error {
			if items := readAudit(t, c).Items; items[len(items)-1].Outcome != "begun" {
				t.Errorf("the last line has the outcome %s", items[len(items)-1].Outcome)
			}
			return outcome
		})
		if !errors.Is(err, outcome) || r.Missing != nil {
			t.Errorf("%v, the line is missing: %v", err, r.Missing)
		}
		items := readAudit(t, c).Items
		got := items[len(items)-1]
		want := "done"
		if outcome != nil {
			want = outcome.Error()
		}
		if got.Outcome != want || got.Action != "break" || got.Reason != "host is gone" || got.By != "ops" || got.Remote != "192.0.2.7:1234" || got.At.IsZero() || got.ID == "" ||
			len(got.Places) != 1 || got.Places[0] != (Place{"/holdfast/locks/db", "ada", "", "7", true}) {
			t.Errorf("%+v; want the outcome %s", got, want)
		}
		if r.ID != got.ID || r.Outcome != got.Outcome {
			t.Errorf("the record is %+v", r)
		}
	}
	if n := len(readAudit(t, c).Items); n != 2 {
		t.Errorf("%d lines for two actions", n)
	}
}

// A client that may not write the audit can act all the same, and is told.
func TestAuditThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	for _, path := range []string{parent, Path} {
		if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent, zk.ACL{Perms: zk.PermRead | zk.PermCreate, Scheme: "world", ID: "anyone"}); err != nil {
			t.Fatal(err)
		}
	}
	acted := false
	r, err := Audited(t.Context(), c, Entry{Action: "break"}.Of("/a", holdfast.Entry{}), By{Name: "ops"}, func() error {
		acted = true
		return nil
	})
	if err != nil || !acted || !errors.Is(r.Missing, zk.ErrNoAuth) || r.Outcome != "done" {
		t.Errorf("%v, %v, %+v", err, acted, r)
	}
}

// Lines that others have written, however odd, neither hang the next writer nor displace its line.
func TestAuditOutlivesHostileLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300<<10)
	for name, items := range map[string][]Entry{
		"last":      {{ID: "A"}, {ID: "B", By: long}},
		"first":     {{ID: "B", By: long}, {ID: "A"}},
		"alone":     {{ID: "B", By: long}},
		"many ours": {{ID: "A", By: long}, {ID: "A", By: long}, {ID: "A"}},
	} {
		data, err := json.Marshal(Log{Kind: "AuditLog", Items: items})
		if err != nil {
			t.Fatal(err)
		}
		ours := Entry{ID: "A", Outcome: "done"}
		next, err := withLine(data, ours)
		if err != nil || len(next) > maxBytes || !strings.Contains(string(next), `"outcome":"done"`) {
			t.Errorf("%s: %d bytes, %v", name, len(next), err)
		}
		if _, err := withLine(data, Entry{ID: "A", By: long}); err == nil {
			t.Errorf("%s: a line of %d bytes is written", name, len(long))
		}
	}
}
