package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

// No event tells that a node is gone that has become unreadable. ls --watch reads the locks again all the same.
func TestWatchOfLsLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c := srv.Client()
		secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
		if _, _, err := c.Create(t.Context(), "/locks", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Create(t.Context(), "/locks/hidden", nil, zk.Persistent, secret); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		changes, done := make(chan struct{}, 1), make(chan error)
		go func() { done <- watchChanges(ctx, srv.Client(), "/locks", changes) }()
		<-changes // the watch is set
		synctest.Wait()
		if err := c.Delete(t.Context(), "/locks/hidden", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		select {
		case <-changes:
			if took := time.Since(begun); took < time.Second {
				t.Error("an event tells of the node: the test tests nothing")
			}
		case <-time.After(lsWatchAgain + time.Second):
			t.Error("it waits for an event that does not come")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
