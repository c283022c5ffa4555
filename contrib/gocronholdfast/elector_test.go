package gocronholdfast

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"holdfast/zk"
)

func (w *world) elector(c *zk.Client) *Elector {
	return NewElector(c, "/jobs/leader", []byte("host"), WithLogger(slog.New(slog.NewTextHandler(w, nil))))
}

func leads(e *Elector) bool { return e.IsLeader(context.Background()) == nil }

// One scheduler of four runs all fires, and when it closes, another.
func TestTheLeaderRunsAllFires(t *testing.T) {
	inBubble(t, func(w *world) {
		var electors []*Elector
		var all []gocron.Scheduler
		var runs [hosts]atomic.Int64
		for i := range hosts {
			e := w.elector(w.srv.Client())
			electors = append(electors, e)
			all = append(all, w.scheduler(gocron.WithDistributedElector(e), "report", func() { runs[i].Add(1) }))
			synctest.Wait()
		}
		time.Sleep(10*period + time.Second)
		electors[0].Close()
		if leads(electors[0]) {
			t.Error("it leads after Close")
		}
		time.Sleep(10 * period)
		w.stop(all...)
		for _, e := range electors[1:] {
			e.Close()
		}
		if a, b := runs[0].Load(), runs[1].Load(); a != 10 || b != 10 {
			t.Errorf("the leaders ran %d and %d fires; want 10 and 10", a, b)
		}
	})
}

// While nobody answers, the answer turns to no at the deadline, and before another process can lead. It needs no server.
func TestIsLeaderIsNeverAStaleYes(t *testing.T) {
	inBubble(t, func(w *world) {
		first, second := w.srv.Client(), w.srv.Client()
		a := w.elector(first)
		synctest.Wait()
		b := w.elector(second)
		defer b.Close()
		defer a.Close()
		synctest.Wait()
		if !leads(a) || leads(b) {
			t.Fatal("the first does not lead")
		}
		resume := w.srv.Stall()
		deadline := a.term.Deadline()
		time.Sleep(time.Until(deadline) - time.Millisecond)
		if !leads(a) {
			t.Error("it does not lead a millisecond before the deadline")
		}
		time.Sleep(time.Millisecond) // not Wait: the client need not have noticed yet
		if leads(a) {
			t.Error("it leads at the deadline")
		}
		time.Sleep(time.Minute)
		resume()
		time.Sleep(time.Minute)
		if leads(a) == leads(b) {
			t.Errorf("after the stall, they lead: %v and %v", leads(a), leads(b))
		}
	})
}

// The deadline decides also where the loss was not noticed, as after a suspend of the machine.
func TestIsLeaderLooksAtTheDeadline(t *testing.T) {
	inBubble(t, func(w *world) {
		e := w.elector(w.srv.Client())
		defer e.Close()
		synctest.Wait()
		for range 100 {
			was := leads(e)
			if was && time.Until(e.term.Deadline()) <= 0 {
				t.Fatal("a yes after the deadline")
			}
			time.Sleep(time.Second)
		}
		if err := (&Elector{}).IsLeader(w.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("before the first term: %v", err)
		}
	})
}

// The options that an Elector cannot use do not compile.
func TestOptionsOfAnElector(t *testing.T) {
	var _ ElectorOption = WithLogger(nil)
	for name, o := range map[string]Option{
		"WithInterval": WithInterval(period), "WithSlot": WithSlot(nil), "WithWait": WithWait(period), "WithOwner": WithOwner("host-1"),
	} {
		if _, ok := o.(ElectorOption); ok {
			t.Errorf("NewElector takes %s, which does nothing there", name)
		}
	}
}

// A leader whose session expires campaigns again, in the next session.
func TestTheElectorCampaignsAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		e := w.elector(w.srv.Client())
		defer e.Close()
		for range 5 {
			time.Sleep(time.Second)
			if !leads(e) {
				t.Fatal("it does not lead")
			}
			h := e.term
			w.srv.Expire(h.SessionID())
			<-h.Lost()
		}
	})
}
