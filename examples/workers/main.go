// Command workers runs on any number of hosts, and at most N of the processes work at a time. Each has a number of its own
// from 0 to N-1.
//
//	HOLDFAST_SERVER=zk://127.0.0.1:2181 go run ./examples/workers -n 3
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

	"holdfast"
	"holdfast/zk"
)

func main() {
	n := flag.Int("n", 3, "number of workers, the same in all processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, n int) error {
	cfg, err := zk.ParseURL(cmp.Or(os.Getenv("HOLDFAST_SERVER"), "zk://127.0.0.1:2181"))
	if err != nil {
		return err
	}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()

	fmt.Println("waiting")
	workers := holdfast.NewSlots(c, "/holdfast/locks/worker", n)
	return holdfast.Do(ctx, workers.Locker(1), work)
}

// work is called while this process has one of the numbers.
func work(ctx context.Context) error {
	h, _ := holdfast.FromContext(ctx)
	fmt.Println("worker", h.Slot())
	<-ctx.Done() // the number is lost, or the process is to end
	return context.Cause(ctx)
}
