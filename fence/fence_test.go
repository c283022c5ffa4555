package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/fence"
	"holdfast/layout"
	"holdfast/zktest"
)

func enter(t *testing.T, g *fence.Gate, resource string, token int64) (leave func()) {
	t.Helper()
	leave, err := g.Enter(t.Context(), resource, token)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func TestGateRefusesWhoIsOlder(t *testing.T) {
	var g fence.Gate
	enter(t, &g, "a", 7)()
	enter(t, &g, "a", 7)() // the holder may come repeatedly
	enter(t, &g, "a", 9)()
	if _, err := g.Enter(t.Context(), "a", 8); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("token 8 after 9: %v; want ErrStale", err) // the holder inside keeps the others out
	}
	enter(t, &g, "b", 1)() // another resource has its own order
	enter(t, &g, "a", 9)() // a refused holder has changed nothing
}

// An older holder that is at work keeps a younger one waiting. Otherwise it would write after the younger
// one.
func TestGateLetsOneInAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		leave := enter(t, &g, "a", 1)
		var inside atomic.Bool
		go func() {
			younger, err := g.Enter(t.Context(), "a", 2)
			if err != nil {
				t.Error(err)
				return
			}
			inside.Store(true)
			younger()
		}()
		other := enter(t, &g, "b", 1)
		synctest.Wait()
		if inside.Load() {
			t.Error("two holders were inside")
		}
		leave()
		leave() // a second call is harmless
		other()
		synctest.Wait()
		if !inside.Load() {
			t.Error("the second holder was not admitted after the first had left")
		}
	})
}

func TestGateDoesNotOutlastTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		leave := enter(t, &g, "a", 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the client has gone")
		failed := make(chan error)
		go func() {
			_, err := g.Enter(ctx, "a", 2)
			failed <- err
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-failed; !errors.Is(err, gone) {
			t.Errorf("got %v; want the context's cause", err)
		}
		leave()
		enter(t, &g, "a", 1)() // the one that gave up was never inside
	})
}

func TestHandlerAnswersByTheToken(t *testing.T) {
	var g fence.Gate
	done := 0
	h := g.Handler(func(r *http.Request) string { return r.URL.Path }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done++ }))
	for _, c := range []struct {
		name, path string
		header     []string
		code       int
		says       string
	}{
		{"a holder", "/a", []string{"5"}, 200, ""},
		{"its successor", "/a", []string{"6"}, 200, ""},
		{"the first again", "/a", []string{"5"}, 412, "another holder since"},
		{"something else", "/b", []string{"5"}, 200, ""},
		{"nobody", "/a", nil, 428, "want one header Holdfast-Token"},
		{"two tokens", "/a", []string{"6", "7"}, 428, "there are 2"},
		{"no number", "/a", []string{"0x7"}, 428, `"0x7" is not a number`},
		{"no token", "/a", []string{"0"}, 428, "above zero"},
		{"negative", "/a", []string{"-3"}, 428, "above zero"},
		{"too large", "/a", []string{"9223372036854775808"}, 428, "not a number"},
		{"the largest", "/a", []string{"9223372036854775807"}, 200, ""},
	} {
		before := done
		r := httptest.NewRequest(http.MethodPut, c.path, nil)
		r.Header[fence.Header] = c.header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		if w.Code != c.code || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %q; want %d and %q", c.name, w.Code, body, c.code, c.says)
		}
		if ran := done > before; ran != (c.code == 200) {
			t.Errorf("%s: the handler ran: %v", c.name, ran)
		}
	}
}

// A handler that panics does not lock its resource for ever.
func TestHandlerThatPanicsLetsGo(t *testing.T) {
	var g fence.Gate
	h := g.Handler(func(*http.Request) string { return "a" }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	func() {
		defer func() { _ = recover() }()
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header.Set(fence.Header, "1")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}()
	enter(t, &g, "a", 1)()
}

func TestCheckRefusesWhatCannotBeRight(t *testing.T) {
	for _, c := range []struct {
		dialect  fence.Dialect
		token    int64
		resource string
		says     string
	}{
		{0, 1, "r", "unknown dialect"},
		{99, 1, "r", "unknown dialect"},
		{fence.SQLite, 0, "r", "above zero"},
		{fence.PostgreSQL, -1, "r", "above zero"},
		{fence.MySQL, 0, "r", "above zero"},
		{fence.MySQL, 1, strings.Repeat("é", 384), "768 bytes"},
	} {
		if err := fence.Check(t.Context(), nil, c.dialect, c.resource, c.token); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; want %q", c, err, c.says)
		}
	}
	for _, d := range []fence.Dialect{0, 99} {
		if err := fence.CreateTable(t.Context(), nil, d); err == nil || !strings.Contains(err.Error(), "unknown dialect") {
			t.Errorf("a table in dialect %d: %v; want an error that names the dialect", d, err)
		}
	}
}

// A ledger is a database that records the tokens it was asked to check.
type ledger struct{ checks []string }

func (l *ledger) Connect(context.Context) (driver.Conn, error) { return l, nil }
func (l *ledger) Driver() driver.Driver                        { return nil }
func (l *ledger) Prepare(string) (driver.Stmt, error)          { return l, nil }
func (l *ledger) Begin() (driver.Tx, error)                    { return l, nil }
func (l *ledger) Query([]driver.Value) (driver.Rows, error)    { return nil, errors.ErrUnsupported }
func (l *ledger) NumInput() int                                { return 2 }
func (l *ledger) Commit() error                                { return nil }
func (l *ledger) Rollback() error                              { return nil }
func (l *ledger) Close() error                                 { return nil }

func (l *ledger) Exec(args []driver.Value) (driver.Result, error) {
	l.checks = append(l.checks, fmt.Sprint(args[0], " ", args[1]))
	return driver.RowsAffected(1), nil
}

// A MultiLock's transaction is fenced with the token of every lock, even of two locks with one path. Each
// lock has the name that it has when it is taken alone.
func TestTransactionIsFencedWithEveryToken(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	red := holdfast.NewMutex(c, "/locks", holdfast.WithLayout(layout.Named("red")))
	blue := holdfast.NewMutex(c, "/locks", holdfast.WithLayout(layout.Named("blue")))
	nightly := holdfast.NewMutex(c, "/nightly")
	for _, l := range []holdfast.Locker{red, blue, nightly, holdfast.NewMultiLock(red, nightly, blue)} {
		h, err := l.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, token := range h.Tokens() {
			name := map[string]string{"named:red": "/locks#named:red", "named:blue": "/locks#named:blue", "curator": "/nightly"}[token.Layout]
			want = append(want, fmt.Sprint(name, " ", token.Token))
		}
		slices.Sort(want)
		var asked ledger
		db := sql.OpenDB(&asked)
		err = fence.InTx(t.Context(), db, fence.SQLite, h, func(context.Context, *sql.Tx) error { return nil })
		if err != nil || !slices.Equal(asked.checks, want) {
			t.Errorf("checked %q, %v; want %q", asked.checks, err, want)
		}
		db.Close()
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}
