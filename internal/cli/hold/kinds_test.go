package hold

import (
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/term"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A node may look like a place in a queue although its name fits no layout. It may belong to a holder. So
// no command starts.
func TestNothingRunsBesideANodeThatNobodyKnows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		child string
		mode  zk.Mode
		kind  KindFlags
		held  bool // another client holds the lock
		try   bool
		also  bool // the node is in the directory of another lock, taken together with ours
		late  bool // the check ends after the lock is acquired
		want  string
	}{
		{name: "unknown", child: "n_", mode: zk.EphemeralSequential, want: "job: the node /holdfast/locks/job/n_0000000000 looks like"},
		{name: "unknown, and the lock is acquired first", child: "n_", mode: zk.EphemeralSequential, late: true, want: "job: the node "},
		{name: "unknown, and we would wait", child: "n_", mode: zk.EphemeralSequential, held: true, want: "job: the node "},
		{name: "--try", child: "n_", mode: zk.EphemeralSequential, try: true, want: "job: the node "},
		{name: "a semaphore's", child: "n_", mode: zk.EphemeralSequential, kind: KindFlags{limit: 2, permits: 1}, want: "job: the node "},
		{name: "one of several locks", child: "n_", mode: zk.EphemeralSequential, also: true, want: "also: the node /holdfast/locks/also/n_0000000000"},
		{name: "another lock's directory, perhaps", child: "n_", mode: zk.PersistentSequential},
		{name: "no number", child: "notes", mode: zk.Ephemeral},
		{name: "another named lock", child: "other_lock_", mode: zk.EphemeralSequential, kind: KindFlags{Layout: kind.Layout{Layout: layout.Named("mine")}}},
		{name: "another kind", child: "0123456789abcdef0123456789abcdef__lock__", mode: zk.EphemeralSequential, want: "job: another kind of lock has this name: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := srv.Client()
				k := newTestTaker(srv)
				k.plan.kind, k.plan.try = tt.kind, tt.try
				if k.plan.kind.Layout.Name == "" {
					k.plan.kind.Layout.Layout = layout.Curator
				}
				dir := lockPath
				if tt.also {
					dir = "/holdfast/locks/also"
					k.plan.also = []string{dir}
				}
				for _, path := range []string{"/holdfast", "/holdfast/locks", dir} {
					if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				if tt.held {
					h, err := holdfast.NewMutex(c, lockPath).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer h.Unlock()
				}
				if _, _, err := c.Create(t.Context(), dir+"/"+tt.child, nil, tt.mode); err != nil {
					t.Fatal(err)
				}
				before := len(queueOf(t, c))
				if tt.late {
					// The check begins with a sync. An uncontended Lock sends none.
					began := time.Now()
					srv.Intercept(zkproto.OpSync, func(string) zktest.Action {
						if time.Since(began) < time.Second {
							return zktest.Throttle
						}
						return zktest.Pass
					})
				}
				tenure, err := k.take(nil)
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					tenure.Close()
					return
				}
				if err == nil || !strings.HasPrefix(term.Explain(err).Err.Error(), tt.want) || term.Explain(err).Code != term.ExitConfig {
					t.Errorf("take: %v; want %s…", err, tt.want)
				}
				if queue := queueOf(t, c); len(queue) != before {
					t.Errorf("the queue is %v; want %d places", queue, before)
				}
			})
		})
	}
}
