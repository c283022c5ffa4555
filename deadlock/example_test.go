package deadlock_test

import (
	"context"
	"errors"
	"fmt"

	"holdfast"
	"holdfast/deadlock"
	"holdfast/zktest"
)

// Two transfers between the same accounts lock them in opposite orders. The younger wait gives up: its transfer releases what
// it holds, and starts again.
func ExampleDetect() {
	srv := zktest.NewServer()
	defer srv.Close()
	transfer := func(from, to string, ready chan<- string, start <-chan bool) error {
		client := srv.Client() // one for each thread
		for {
			err := holdfast.Do(context.Background(), holdfast.NewMutex(client, "/accounts/"+from), func(ctx context.Context) error {
				ready <- from
				<-start
				return holdfast.Do(ctx, holdfast.NewMutex(client, "/accounts/"+to, deadlock.Detect()), func(context.Context) error { return nil })
			})
			if cycle, ok := errors.AsType[*deadlock.Error](err); ok {
				fmt.Println("start again: a cycle of", len(cycle.Waits))
				continue
			}
			return err
		}
	}
	ready, start, done := make(chan string, 10), make(chan bool), make(chan error)
	go func() { done <- transfer("alice", "bob", ready, start) }()
	go func() { done <- transfer("bob", "alice", ready, start) }()
	<-ready
	<-ready
	close(start) // both hold a lock
	fmt.Println(<-done, <-done)
	// Output:
	// start again: a cycle of 2
	// <nil> <nil>
}
