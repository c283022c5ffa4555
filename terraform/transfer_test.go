package terraform

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A wire is a connection with deadlines, on which the client sends and reads a byte a second.
type wire struct {
	http.ResponseWriter
	in, out time.Time
	n       int
}

func (w *wire) SetReadDeadline(t time.Time) error  { w.in = t; return nil }
func (w *wire) SetWriteDeadline(t time.Time) error { w.out = t; return nil }

func (w *wire) pass(b []byte, until func() time.Time) (int, error) {
	time.Sleep(time.Second)
	if !time.Now().Before(until()) {
		return 0, os.ErrDeadlineExceeded
	}
	w.n++
	return min(1, len(b)), nil
}

func (w *wire) Read(b []byte) (int, error)  { return w.pass(b, func() time.Time { return w.in }) }
func (w *wire) Close() error                { return nil }
func (w *wire) Write(b []byte) (int, error) { return w.pass(b, func() time.Time { return w.out }) }

// A body that arrives byte by byte ends when its time is over, and so does an answer that is read so.
func TestTransfersHaveALeastRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), transferPatience)
		defer cancel()
		in := &wire{ResponseWriter: httptest.NewRecorder()}
		r := httptest.NewRequest("POST", "/", in)
		began := time.Now()
		_, err := readBody(ctx, in, r, defaultMaxState, func(int64) bool { return true })
		if no, ok := errors.AsType[*refusal](err); !ok || no.status != http.StatusRequestTimeout || time.Since(began) > 2*grace {
			t.Errorf("a slow body: %v after %v", err, time.Since(began))
		}
		out := &wire{ResponseWriter: httptest.NewRecorder()}
		began = time.Now()
		send(ctx, out, make([]byte, 1<<20))
		if time.Since(began) > 2*grace || out.n == 0 {
			t.Errorf("a slow answer: %d bytes in %v", out.n, time.Since(began))
		}
	})
}
