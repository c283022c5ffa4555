package zk

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A server answers a request before it has read it. The caller may then build its next request
// in the same buffer while the first is still being written.
func TestRequestIsSentAsItWasMadeHoweverSoonItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, timeout = 400, time.Minute // together they exceed any buffer of the writer
		first, second := bytes.Repeat([]byte("1"), 2000), bytes.Repeat([]byte("2"), 2000)
		queued := make(chan struct{})
		c := dialTest(t, timeout, func(p *peer) { p.accept(7, timeout) }, func(p *peer) {
			<-queued
			p.accept(7, timeout)
			synctest.Wait() // the writer has begun, and waits for us to read
			for xid := range callers {
				p.answer(int32(xid+1), 1, 0, &zkproto.StatResponse{})
			}
			synctest.Wait() // the second requests are in the queue
			for i := range 2 * callers {
				h, r := p.request()
				var m zkproto.SetDataRequest
				m.Decode(r)
				path, data := "/first", first
				if i >= callers {
					path, data = "/second", second
				}
				if h.Xid != int32(i+1) || h.Op != zkproto.OpSetData || m.Path != path || !bytes.Equal(m.Data, data) {
					t.Errorf("request %d arrived as %+v of %s; want it as it was made", i+1, h, m.Path)
					break
				}
			}
			for xid := callers; xid < 2*callers; xid++ {
				p.answer(int32(xid+1), 1, 0, &zkproto.StatResponse{})
			}
			p.serve()
		})
		order := func(yield func(string, []byte) bool) { _ = yield("/first", first) && yield("/second", second) }
		synctest.Wait() // until the first connection is broken
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for path, data := range order {
					if _, err := c.Set(t.Context(), path, data, AnyVersion); err != nil {
						t.Error(err)
					}
				}
			})
		}
		synctest.Wait()
		close(queued)
		wg.Wait()
	})
}

// CURATOR-498, Shopify 2023-04: the answer to an abandoned call reached the call after it.
func TestLateAnswerReachesNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given, held := make(chan struct{}), make(chan struct{})
		data := func(path string) *zkproto.GetDataResponse {
			return &zkproto.GetDataResponse{Data: []byte("of " + path)}
		}
		const calls = 50
		c := dialTest(t, time.Minute, func(p *peer) {
			p.accept(7, time.Minute)
			var all []zkproto.RequestHeader
			var paths []string
			take := func() {
				h, r := p.request()
				var m zkproto.ReadRequest
				m.Decode(r)
				all, paths = append(all, h), append(paths, m.Path)
			}
			for range calls {
				take()
			}
			close(given)
			for range calls {
				take()
			}
			<-held
			for i, h := range all {
				p.answer(h.Xid, 1, 0, data(paths[i]))
			}
			p.serve()
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				_, _, err := c.Get(ctx, fmt.Sprintf("/given-up/%d", i))
				wantErr(t, err, context.Canceled)
			})
		}
		<-given
		cancel()
		wg.Wait()
		for i := range calls {
			wg.Go(func() {
				path := fmt.Sprintf("/wanted/%d", i)
				if got, _, err := c.Get(t.Context(), path); string(got) != "of "+path || err != nil {
					t.Errorf("%s: got another call's answer %q, %v", path, got, err)
				}
			})
		}
		synctest.Wait()
		close(held)
		wg.Wait()
	})
}
