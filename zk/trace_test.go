package zk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

func TestTraceTellsTheStoryOfAClient(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var mu sync.Mutex
		var story []string
		tell := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			story = append(story, fmt.Sprintf(format, args...))
		}
		cfg := srv.Config()
		cfg.SessionTimeout = 10 * time.Second
		cfg.Trace = &zk.Trace{
			ConnectDone:    func(server string, _ time.Duration, err error) { tell("connected: %v", err) },
			Disconnected:   func(int64, error) { tell("disconnected") },
			SessionCreated: func(_ int64, timeout time.Duration) { tell("created: %v", timeout) },
			SessionResumed: func(int64) { tell("resumed") },
			SessionOver:    func(_ int64, cause error) { tell("over: %v", cause) },
			RequestDone:    func(_ context.Context, op, path string, _ time.Duration, err error) { tell("%s %s: %v", op, path, err) },
		}
		c := dial(t, cfg)
		create(t, c, "/a")
		c.Pipeline(t.Context(), zk.GetOp("/a"), zk.ExistsOp("/b"))
		srv.CloseClientConnections()
		synctest.Wait()
		c.Sync(t.Context(), "/")
		c.Close()
		want := []string{
			"connected: <nil>", "created: 10s", "create /a: <nil>", "get /a: <nil>", "exists /b: <nil>",
			"disconnected", "connected: <nil>", "resumed", "sync /: <nil>", "over: client closed", "disconnected",
		}
		if !slices.Equal(story, want) {
			t.Errorf("got\n%q\nwant\n%q", story, want)
		}
	})
}

// A library does not write to its program's log unless it is given a logger. Its lines name the
// session and the server.
func TestNothingIsLoggedUnlessAskedFor(t *testing.T) {
	var everybodys bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&everybodys, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	live := func(srv *zktest.Server, logger *slog.Logger) {
		cfg := srv.Config()
		cfg.Logger = logger
		c := dial(t, cfg)
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.CloseClientConnections()
		srv.Expire(s.ID())
		<-s.Context().Done()
		c.Close()
	}
	srv := zktest.NewServer()
	defer srv.Close()
	live(srv, nil)
	if everybodys.Len() > 0 {
		t.Errorf("written to the program's log: %s", everybodys.String())
	}
	var own bytes.Buffer
	live(srv, slog.New(slog.NewTextHandler(&own, nil)))
	for _, want := range []string{"session created", "connection lost", "session over", "session=0x", "cause=\"session expired\"", "server="} {
		if !strings.Contains(own.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, own.String())
		}
	}
}

func TestRequestDoneHasTheCallersContext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		type key struct{}
		var got []any
		cfg := srv.Config()
		cfg.Trace = &zk.Trace{RequestDone: func(ctx context.Context, op, path string, _ time.Duration, _ error) {
			got = append(got, ctx.Value(key{}))
		}}
		c, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := context.WithValue(t.Context(), key{}, "mine")
		if _, _, err := c.Create(ctx, "/a", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pipeline(ctx, zk.GetOp("/a"), zk.ExistsOp("/a")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Multi(ctx, zk.SetOp("/a", nil, 0)); err != nil {
			t.Fatal(err)
		}
		if want := []any{"mine", "mine", "mine", "mine"}; !slices.Equal(got, want) {
			t.Errorf("the contexts have %v; want %v", got, want)
		}
	})
}

// The requests of StartMulti go ahead of the session's later ones, and their outcome is that of Multi.
func TestStartMulti(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, err := zk.Dial(t.Context(), srv.Config())
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var waits []func() ([]zk.Result, error)
		for i := range 10 {
			path := fmt.Sprintf("/n%d", i)
			waits = append(waits, s.StartMulti(zk.CreateOp(path, nil, zk.Persistent)))
			if _, ok, err := s.Exists(t.Context(), path); !ok || err != nil {
				t.Errorf("%s: %v %v", path, ok, err)
			}
		}
		for i, wait := range waits {
			if res, err := wait(); err != nil || len(res) != 1 || res[0].Path != fmt.Sprintf("/n%d", i) {
				t.Error(res, err)
			}
		}
		if res, err := s.StartMulti(zk.DeleteOp("/n0", 7))(); !errors.Is(err, zk.ErrBadVersion) || len(res) != 1 {
			t.Error(res, err)
		}
		if _, err := s.StartMulti(zk.GetOp("/n0"))(); !errors.Is(err, zk.ErrBadArguments) {
			t.Error(err)
		}
		if _, err := s.StartMulti(zk.CreateOp("/big", make([]byte, 2<<20), zk.Persistent))(); !errors.Is(err, zk.ErrTooLarge) {
			t.Error(err)
		}
		srv.Stall()
		sent := s.StartMulti(zk.DeleteOp("/n1", 0))
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sent(); !errors.Is(err, zk.ErrClosed) || !zk.MayHaveHappened(err) {
			t.Errorf("of a request that was sent: %v", err)
		}
		if _, err := s.StartMulti(zk.DeleteOp("/n2", 0))(); !errors.Is(err, zk.ErrClosed) || zk.MayHaveHappened(err) {
			t.Errorf("of a request after Close: %v", err)
		}
	})
}
