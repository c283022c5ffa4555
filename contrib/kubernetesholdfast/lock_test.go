package kubernetesholdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"holdfast/contrib/kubernetesholdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func newLock(t *testing.T, c *zk.Client, identity string) *kubernetesholdfast.Lock {
	t.Helper()
	l, err := kubernetesholdfast.New(c, "/leaders/controller", identity)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func expire(srv *zktest.Server, c *zk.Client) {
	if s, err := c.Session(context.Background()); err == nil {
		srv.Expire(s.ID())
	}
}

// A watcher sees who leads.
type watcher struct {
	mu      sync.Mutex
	leaders map[string]bool
	terms   []string
	twice   []string // moments with two leaders
	changed chan struct{}
}

func (w *watcher) started(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaders[id] = true
	w.terms = append(w.terms, id)
	if len(w.leaders) > 1 {
		w.twice = append(w.twice, fmt.Sprint(w.leaders))
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watcher) stopped(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leaders, id)
}

func (w *watcher) leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.leaders {
		return id
	}
	return ""
}

// candidate runs for leader until ctx ends, again after each loss.
func (w *watcher) candidate(ctx context.Context, t *testing.T, c *zk.Client, id string, release bool) {
	for n := 0; ctx.Err() == nil; n++ {
		identity := fmt.Sprint(id, ".", n)
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: newLock(t, c, identity), LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			ReleaseOnCancel: release,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					w.started(identity)
					<-ctx.Done()
					w.stopped(identity)
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Error(err)
			return
		}
		e.Run(ctx)
	}
}

// Three candidates, an hour of faults: never two leaders, always a leader again, and new leaders.
func TestNeverTwoLeaders(t *testing.T) {
	faults := map[string]func(srv *zktest.Server, clients []*zk.Client, i int){
		"connections break": func(srv *zktest.Server, _ []*zk.Client, _ int) { srv.CloseClientConnections() },
		"sessions expire":   func(srv *zktest.Server, clients []*zk.Client, i int) { expire(srv, clients[i%3]) },
		"server restarts":   func(srv *zktest.Server, _ []*zk.Client, _ int) { srv.Restart() },
		"server stalls": func(srv *zktest.Server, _ []*zk.Client, i int) {
			resume := srv.Stall()
			time.Sleep(time.Duration(i%13) * 3 * time.Second)
			resume()
		},
		"answers are lost": func(srv *zktest.Server, _ []*zk.Client, i int) {
			n := 0
			srv.Intercept(zkproto.OpSetData, func(string) zktest.Action {
				if n++; n%2 == i%2 {
					return zktest.DropReply
				}
				return zktest.Pass
			})
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				ctx, cancel := context.WithCancel(context.Background())
				w := &watcher{leaders: make(map[string]bool), changed: make(chan struct{}, 1)}
				var clients []*zk.Client
				var group sync.WaitGroup
				for i := range 3 {
					c := srv.Client()
					clients = append(clients, c)
					group.Go(func() { w.candidate(ctx, t, c, fmt.Sprint("candidate-", i), i == 0) })
				}
				for i := range 40 {
					time.Sleep(time.Minute + time.Duration(i)*137*time.Millisecond)
					if w.leader() == "" {
						t.Errorf("nobody leads a minute after fault %d", i)
					}
					fault(srv, clients, i)
				}
				srv.Intercept(zkproto.OpSetData, nil)
				time.Sleep(time.Minute)
				cancel()
				group.Wait()
				synctest.Wait()
				if len(w.twice) > 0 {
					t.Errorf("two leaders: %q", w.twice)
				}
				if name == "server stalls" && len(w.terms) < 3 {
					t.Errorf("only these led: %q", w.terms)
				}
			})
		})
	}
}

// A leader that steps down hands over within a retry period, and one whose process dies within a lease.
func TestHandover(t *testing.T) {
	// client-go tries again after 1 to 2.2 times the period of 2 s, at random.
	const again = 4400*time.Millisecond + time.Millisecond
	for _, tc := range []struct {
		release bool
		within  time.Duration
	}{{true, again}, {false, 15*time.Second + again}} {
		t.Run(fmt.Sprint("release ", tc.release), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				w := &watcher{leaders: make(map[string]bool), changed: make(chan struct{}, 1)}
				first, stopFirst := context.WithCancel(context.Background())
				second, stopSecond := context.WithCancel(context.Background())
				var group sync.WaitGroup
				group.Go(func() { w.candidate(first, t, srv.Client(), "a", tc.release) })
				<-w.changed
				group.Go(func() { w.candidate(second, t, srv.Client(), "b", tc.release) })
				time.Sleep(time.Minute)
				if got := w.leader(); got != "a.0" {
					t.Errorf("%s leads, want a.0", got)
				}
				stopFirst()
				begun := time.Now()
				<-w.changed
				if took := time.Since(begun); took > tc.within {
					t.Errorf("the handover took %v", took)
				}
				if got := w.leader(); got != "b.0" {
					t.Errorf("%s leads, want b.0", got)
				}
				stopSecond()
				group.Wait()
			})
		})
	}
}

func TestErrorsAreThoseOfKubernetes(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, a, b := context.Background(), newLock(t, srv.Client(), "a"), newLock(t, srv.Client(), "b")
	if err := a.Update(ctx, resourcelock.LeaderElectionRecord{}); err == nil {
		t.Error("Update before Get succeeded")
	}
	if _, _, err := a.Get(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("Get: %v, want NotFound", err)
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15, LeaderTransitions: 3}
	if err := a.Create(ctx, record); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(ctx, record); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second Create: %v, want AlreadyExists", err)
	}
	got, raw, err := b.Get(ctx)
	if err != nil || *got != record || len(raw) == 0 {
		t.Errorf("Get: %+v, %v", got, err)
	}
	record.LeaderTransitions++
	if err := b.Update(ctx, record); err != nil {
		t.Fatal(err)
	}
	if err := a.Update(ctx, record); !apierrors.IsConflict(err) {
		t.Errorf("Update of a record that was changed: %v, want Conflict", err)
	}
	if err := b.Update(ctx, record); err != nil {
		t.Errorf("second Update: %v", err)
	}
	if err := srv.Client().Delete(ctx, "/leaders/controller", zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if err := b.Update(ctx, record); !apierrors.IsNotFound(err) {
		t.Errorf("Update of a record that is gone: %v, want NotFound", err)
	}
	if _, _, err := srv.Client().Create(ctx, "/leaders/controller", []byte("something else"), zk.Persistent); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Get(ctx); err == nil {
		t.Error("Get took any text for a record")
	}
	for _, tc := range []struct {
		path, identity string
		want           error
	}{{"leaders", "a", zk.ErrInvalidPath}, {"/", "a", zk.ErrInvalidPath}, {"/leaders", "", zk.ErrBadArguments}} {
		if _, err := kubernetesholdfast.New(srv.Client(), tc.path, tc.identity); !errors.Is(err, tc.want) {
			t.Errorf("New(%q, %q): %v, want %v", tc.path, tc.identity, err, tc.want)
		}
	}
}

// client-go counts the lease from the answer, so a late answer is none.
func TestALateAnswerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, l := context.Background(), newLock(t, srv.Client(), "a")
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}
		if err := l.Create(ctx, record); err != nil {
			t.Fatal(err)
		}
		resume := srv.Stall()
		time.AfterFunc(3*time.Second, resume)
		if err := l.Update(ctx, record); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Update: %v, want DeadlineExceeded", err)
		}
		time.Sleep(10 * time.Second)
		if _, _, err := l.Get(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Update(ctx, record); err != nil {
			t.Errorf("Update after Get: %v", err)
		}
	})
}

// client-go releases with a record of one second without a holder. A late answer is one, since no lease begins.
func TestALateReleaseIsARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, l := context.Background(), newLock(t, srv.Client(), "a")
		if err := l.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*time.Second, srv.Stall())
		if err := l.Update(ctx, resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
			t.Errorf("release: %v", err)
		}
		if record, _, err := l.Get(ctx); err != nil || record.HolderIdentity != "" {
			t.Errorf("after the release: %+v, %v", record, err)
		}
	})
}

// Nodes above the root cannot be made. Without the chroot, Create fails and says what to do.
func TestAMissingChrootIsAnError(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg := srv.Config()
	cfg.Chroot = "/missing/chroot"
	c, err := zk.Dial(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = newLock(t, c, "a").Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15})
	if err == nil || !strings.Contains(err.Error(), "create the chroot") {
		t.Errorf("Create: %v; want an error that says to create the chroot", err)
	}
}
