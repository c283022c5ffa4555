package zk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// Long answers that nobody has taken yet are bounded together: a server could fill the memory of a client that reads many nodes
// at a time.
func TestLongAnswersAreBoundedTogether(t *testing.T) {
	before := maxHeld
	maxHeld = 1 << 20
	defer func() { maxHeld = before }()
	synctest.Test(t, func(t *testing.T) {
		const each = 100 << 10
		slow := make(chan struct{})
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			for {
				h, r := p.request()
				switch h.Op {
				case 0:
					return
				case zkproto.OpGetData:
					var m zkproto.ReadRequest
					if m.Decode(r); m.Path == "/slow" {
						<-slow
					}
					size := each
					if m.Path == "/short" {
						size = 100
					}
					if m.Path == "/huge" {
						size = 3 << 20
					}
					p.answer(h.Xid, 1, 0, &zkproto.GetDataResponse{Data: make([]byte, size)})
				default:
					p.answerAny(h, r)
				}
			}
		})
		read := func(ctx context.Context, n int, path string) (got int, err error) {
			ops := make([]Op, n)
			for i := range ops {
				ops[i] = GetOp(path)
			}
			results, err := c.Pipeline(ctx, ops...)
			for _, r := range results {
				if r.Err == nil {
					got++
				}
			}
			return got, err
		}
		for range 5 { // what was taken counts no more
			got, err := read(t.Context(), 100, "/long")
			if !errors.Is(err, ErrTooLarge) || got != int(maxHeld)/each {
				t.Fatalf("%d of 100 answers, error %v", got, err)
			}
			if got, err := read(t.Context(), 10, "/long"); err != nil {
				t.Fatalf("%d of 10 answers, error %v", got, err)
			}
		}
		if got, err := read(t.Context(), 1000, "/short"); err != nil {
			t.Errorf("%d of 1000 short answers, error %v", got, err)
		}
		if _, err := read(t.Context(), 1, "/huge"); err != nil {
			t.Errorf("a single answer: %v", err)
		}
		// Nor does what nobody waits for any more.
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				ops := []Op{GetOp("/long"), GetOp("/long"), GetOp("/slow"), GetOp("/long")}
				c.Pipeline(ctx, ops...)
			}()
			synctest.Wait()
			cancel()
			<-done
			slow <- struct{}{}
			synctest.Wait()
		}
		if got, err := read(t.Context(), 10, "/long"); err != nil {
			t.Errorf("%d of 10 answers, error %v", got, err)
		}
		if held := mustSession(t, c).held.Load(); held != 0 {
			t.Errorf("%d bytes are counted, and nobody waits", held)
		}
	})
}
