package zkserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
)

func TestAliveAndFlushTellASlowDiskFromAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowStore{store.NewMemory(), make(chan struct{}, 100)}
		for range 100 {
			disk.ready <- struct{}{}
		}
		cfg, _ := Config{}.withDefaults()
		s, err := start(cfg, login.Users{}, disk)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(question func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return question(ctx)
		}
		check := func(when string, alive, flush error) {
			t.Helper()
			if err := ask(s.Alive); !errors.Is(err, alive) {
				t.Errorf("%s: Alive: %v; want %v", when, err, alive)
			}
			if err := ask(s.Flush); !errors.Is(err, flush) {
				t.Errorf("%s: Flush: %v; want %v", when, err, flush)
			}
		}
		check("idle", nil, nil)

		for len(disk.ready) > 0 {
			<-disk.ready
		}
		s.queue.push(&request{kind: kindCall, call: func() { s.owner.batch.changes.PutCeiling(s.owner.ceiling) }})
		check("slow disk", nil, context.DeadlineExceeded)
		for range 100 {
			disk.ready <- struct{}{}
		}
		check("the disk is back", nil, nil)

		goOn := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { <-goOn }})
		check("hanging", context.DeadlineExceeded, context.DeadlineExceeded)
		close(goOn)
		check("going on", nil, nil)

		s.Close()
		check("closed", ErrServerClosed, ErrServerClosed)
	})
}
