package see

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/cli/term"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zktest"
)

// inBubble runs f with its own server and fake time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

func TestListFindsLocksBelowLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		for _, path := range []string{"/ns/db", "/ns/db/migrate", "/ns/db/deep/er", "/ns/dbx", "/other"} {
			h, err := holdfast.NewMutex(c, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer h.Unlock()
		}
		for _, tt := range []struct {
			prefix string
			want   []string
		}{
			{"/ns/", []string{"/ns/db", "/ns/db/deep/er", "/ns/db/migrate", "/ns/dbx"}},
			{"/ns/db", []string{"/ns/db", "/ns/db/deep/er", "/ns/db/migrate", "/ns/dbx"}},
			{"/ns/db/", []string{"/ns/db/deep/er", "/ns/db/migrate"}},
			{"/ns/db/d", []string{"/ns/db/deep/er"}},
			{"/ns/q", nil},
			{"/q/q", nil},
			{"/", []string{"/ns/db", "/ns/db/deep/er", "/ns/db/migrate", "/ns/dbx", "/other"}},
		} {
			found, err := Query{Prefix: tt.prefix, Namespace: "/"}.Read(context.Background(), c)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range found {
				got = append(got, l.Path)
				if len(l.Queue) != 1 {
					t.Errorf("%s: the queue of %s is %v; want one holder", tt.prefix, l.Path, l.Queue)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: found %v; want %v", tt.prefix, got, tt.want)
			}
		}
	})
}

// Slots are one lock, held or free, and their directories are none.
func TestListShowsSlotsAsOneLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		want := func(places ...string) {
			t.Helper()
			found, err := Query{Prefix: "/ns/", Namespace: "/"}.Read(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range found {
				for _, e := range l.Queue {
					got = append(got, l.Path+" "+e.Name)
				}
				if len(l.Queue) == 0 {
					got = append(got, l.Path)
				}
			}
			if !slices.Equal(got, places) {
				t.Errorf("found %q; want %q", got, places)
			}
		}
		slots := holdfast.NewSlots(c, "/ns/ids", 3)
		var held []*holdfast.Hold
		for range 2 {
			h, err := slots.Acquire(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, h)
		}
		want("/ns/ids slots/slot-0000000000", "/ns/ids slots/slot-0000000001")
		for _, h := range held {
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		want("/ns/ids")
	})
}

// ls shows a caller's place in the queue of a Once's key, and does not take the recorded results for locks.
func TestListShowsNoMarksOfAOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		paths := func() (paths []string) {
			found, err := Query{Prefix: "/ns/", Namespace: "/"}.Read(t.Context(), c)
			if err != nil {
				t.Error(err)
			}
			for _, l := range found {
				paths = append(paths, l.Path)
			}
			return paths
		}
		reports := once.New(c, "/ns/reports", once.AtMostOnce())
		for _, key := range []string{"monday", "tuesday"} {
			_, err := reports.Key(key).Do(t.Context(), func(context.Context) ([]byte, error) {
				if got := paths(); len(got) != 1 || !strings.HasSuffix(got[0], "/"+key) {
					t.Errorf("found %q while %s runs", got, key)
				}
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := paths(); len(got) != 0 {
			t.Errorf("found %q", got)
		}
	})
}

// ls, top, sessions and doctor refuse a tree that is too large for the memory, and say so.
func TestFindLocksInATreeThatIsTooLarge(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	for i := range 50 {
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/l%d", i), nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Create(t.Context(), fmt.Sprintf("/l%d/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", i), make([]byte, 1000), zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := (Query{Prefix: "/", Namespace: "/"}).Read(t.Context(), c); err != nil || len(found) != 50 {
		t.Fatal(len(found), err)
	}
	nodes, bytes := budget.MaxNodes, budget.MaxBytes
	defer func() { budget.MaxNodes, budget.MaxBytes = nodes, bytes }()
	for _, limit := range []struct{ nodes, bytes int64 }{{90, bytes}, {nodes, 40_000}} {
		budget.MaxNodes, budget.MaxBytes = limit.nodes, limit.bytes
		_, err := Query{Prefix: "/", Namespace: "/"}.Read(t.Context(), c)
		if f := term.Explain(err); !errors.Is(err, budget.ErrTooMuch) || f.Code != term.ExitUnavailable || f.Hint == "" {
			t.Errorf("limits %v: %v", limit, err)
		}
	}
}
