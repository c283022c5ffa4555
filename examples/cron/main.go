// Command cron does a job every minute on one of the hosts that run it, whichever comes first. If a host dies, another one
// does the job.
//
//	HOLDFAST_SERVER=zk://127.0.0.1:2181 go run ./examples/cron
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
)

func main() {
	every := flag.Duration("every", time.Minute, "period of the job")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *every); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, every time.Duration) error {
	cfg, err := zk.ParseURL(cmp.Or(os.Getenv("HOLDFAST_SERVER"), "zk://127.0.0.1:2181"))
	if err != nil {
		return err
	}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()

	me := fmt.Sprintf("pid %d", os.Getpid())
	jobs := once.New(c, "/holdfast/once/cleanup", once.WithLock(holdfast.WithOwner(me)))
	for tick := time.Tick(every); ; {
		// A little less than the period: the clocks of the hosts differ.
		r, err := jobs.Every(every*9/10).Do(ctx, cleanUp)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil: // the next host, or the next minute, does the job
			log.Print(err)
		case r.Ran:
			fmt.Println("done here")
		default:
			fmt.Println("done by", r.Owner)
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cleanUp is the job. Its context ends if the lock is lost, and then another host may begin.
func cleanUp(ctx context.Context) ([]byte, error) { return nil, ctx.Err() }
