package zk_test

import (
	"bytes"
	"context"
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
			"connected: <nil>", "created: 10s", "create /a: <nil>", "get /a: <nil>", "exists /b: zk: exists /b: node does not exist",
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
