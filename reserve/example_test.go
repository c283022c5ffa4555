package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"holdfast"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zktest"
)

// Two hosts start a job of every minute, and the clock of one is late. The job is over in a moment, but the lock
// stays reserved.
func ExampleReservation() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for _, host := range []string{"web1", "web2"} { // each in its own process
		job := reserve.Locker(holdfast.NewMutex(c, "/holdfast/locks/job", holdfast.WithOwner(host)))
		h, err := job.TryLock(ctx)
		if r, ok := errors.AsType[*reserve.Reservation](err); ok {
			fmt.Printf("%s: %s has run, the next run is possible after %v\n", host, r.Owner, r.Until.Sub(r.From))
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := reserve.For(ctx, h, 50*time.Second); err != nil {
			log.Fatal(err)
		}
		fmt.Println(host, "runs")
		if err := h.Unlock(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// web1 runs
	// web2: web1 has run, the next run is possible after 50s
}
