package zk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

func TestCloseSessionEndsThatSessionOnly(t *testing.T) {
	server := zktest.NewServer()
	defer server.Close()
	dead, other := server.Client(), server.Client()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for path, c := range map[string]*zk.Client{"/dead": dead, "/other": other} {
		if _, _, err := c.Create(ctx, path, nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
	}
	s, err := dead.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id, password := s.ID(), s.Password()
	if err := zk.CloseSession(ctx, server.Config(), id, make([]byte, 16)); err != nil {
		t.Fatal(err) // the server says of a wrong password that the session has expired
	}
	if _, there, err := other.Exists(ctx, "/dead"); err != nil || !there {
		t.Fatalf("a wrong password ends a session: %v", err)
	}
	for range 2 { // a session that has ended is no error
		if err := zk.CloseSession(ctx, server.Config(), id, password); err != nil {
			t.Fatal(err)
		}
	}
	if _, there, err := other.Exists(ctx, "/dead"); err != nil || there {
		t.Fatalf("the node of the session is still there: %v", err)
	}
	if _, there, err := other.Exists(ctx, "/other"); err != nil || !there {
		t.Errorf("the node of another session is gone: %v", err)
	}
	<-s.Context().Done()
}

func TestCloseSessionGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := zk.CloseSession(ctx, zk.Config{Servers: []string{"127.0.0.1:1"}}, 7, make([]byte, 16))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := zk.CloseSession(t.Context(), zk.Config{}, 7, nil); err == nil {
		t.Error("no servers are no error")
	}
}

func TestOutliveInURLs(t *testing.T) {
	for url, want := range map[string]bool{
		"zk://a:1?outlive=true": true, "zk://a:1/x?outlive=false": false, "zk://a:1?timeout=5s&outlive=true": true,
		"unix:///s?outlive=true": true, "unix:///s": false,
	} {
		cfg, err := zk.ParseURL(url)
		if err != nil || cfg.Outlive != want || cfg.Servers[0] != "a:1" && cfg.Servers[0] != "unix:///s" {
			t.Errorf("%s: %+v, %v", url, cfg, err)
		}
	}
	for _, url := range []string{"zk://a:1?outlive=yes", "unix:///s?outlive=maybe"} {
		if _, err := zk.ParseURL(url); err == nil {
			t.Errorf("%s is accepted", url)
		}
	}
}
