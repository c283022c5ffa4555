// Command leader runs on several hosts. One of them leads, and the others wait. If the leader dies, the next one leads.
//
//	HOLDFAST_SERVER=zk://127.0.0.1:2181 go run ./examples/leader
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"holdfast"
	"holdfast/zk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := zk.ParseURL(cmp.Or(os.Getenv("HOLDFAST_SERVER"), "zk://127.0.0.1:2181"))
	if err != nil {
		return err
	}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()

	me := fmt.Sprintf("pid %d", os.Getpid()) // what others read from Leader, such as an address
	election := holdfast.NewElection(c, "/holdfast/locks/scheduler")
	fmt.Println("candidate", me)
	return election.Lead(ctx, []byte(me), lead)
}

// lead is called while this process leads. After a loss, its context ends, and Lead calls it again in the next term.
func lead(ctx context.Context) error {
	term, _ := holdfast.FromContext(ctx)
	fmt.Println("leading, term", term.Token())
	<-ctx.Done() // schedule the work here
	fmt.Println("not leading any more")
	return context.Cause(ctx)
}
