package zk

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// withYield runs f in a bubble in which every yield of a writer takes so long.
func withYield(t *testing.T, took func() time.Duration, f func(t *testing.T)) {
	was := yield
	defer func() { yield = was }()
	yield = func() {
		time.Sleep(took())
		was()
	}
	synctest.Test(t, f)
}

// In a program whose goroutines compute, a yield lasts for their time slices. It delays one write in a
// second, not all.
func TestSlowYieldsAreRare(t *testing.T) {
	var yields atomic.Int64
	slow := func() time.Duration { yields.Add(1); return 10 * time.Millisecond }
	withYield(t, slow, func(t *testing.T) {
		c := dialTest(t, time.Hour, func(p *peer) {
			p.accept(7, time.Hour)
			p.serve()
		})
		s := mustSession(t, c)
		before, began := yields.Load(), time.Now()
		const requests = 100
		for range requests {
			if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n, most := yields.Load()-before, int64(time.Since(began)/time.Second)+1; n == 0 || n > most {
			t.Errorf("%d yields in %v; want one a second at most, and some", n, time.Since(began))
		}
	})
}

// A yield that brings requests is worth its time.
func TestWriterYieldsWhileTheQueueGrows(t *testing.T) {
	var opened atomic.Pointer[Session]
	var yields atomic.Int64
	withYield(t, func() time.Duration {
		s := opened.Load()
		if s == nil {
			return 0
		}
		if yields.Add(1) <= 3 {
			for range 10 {
				go s.Exists(context.Background(), "/b")
			}
		}
		return 5 * time.Millisecond
	}, func(t *testing.T) {
		s := mustSession(t, dialTest(t, time.Hour, func(p *peer) {
			p.accept(7, time.Hour)
			p.serve()
		}))
		synctest.Wait()
		opened.Store(s)
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if n := yields.Load(); n != 4 {
			t.Errorf("%d yields; want three that brought requests, and one", n)
		}
	})
}
