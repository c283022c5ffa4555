package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"holdfast"
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
		job := holdfast.Reservable(holdfast.NewMutex(c, "/holdfast/locks/job", holdfast.WithOwner(host)))
		h, err := job.TryLock(ctx)
		if r, ok := errors.AsType[*holdfast.Reservation](err); ok {
			fmt.Printf("%s: %s has run, the next run is possible after %v\n", host, r.Owner, r.Until.Sub(r.From))
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := h.Reserve(ctx, 50*time.Second); err != nil {
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

// A lock that is held for other reasons also guards what is done once for each date.
func ExampleTurn() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reports := holdfast.NewOnce(c, "/holdfast/once/reports", holdfast.WithOwner("web1"))
	for range 2 {
		err := holdfast.Do(ctx, holdfast.NewMutex(c, "/holdfast/locks/reports"), func(ctx context.Context) error {
			h, _ := holdfast.FromContext(ctx)
			turn, last, err := reports.Key("2026-11-23").Turn(ctx, h)
			switch {
			case err != nil:
				return err
			case turn == nil:
				fmt.Println("done by", last.Owner)
				return nil
			}
			fmt.Println("writing the report")
			_, err = turn.Done(ctx, nil)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// writing the report
	// done by web1
}
