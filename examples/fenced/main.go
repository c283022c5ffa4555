// Command fenced counts in a resource that two holders must never change at the same time. The resource refuses a holder
// that was paused and no longer has the lock.
//
//	HOLDFAST_SERVER=zk://127.0.0.1:2181 go run ./examples/fenced
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
	"holdfast/fence"
	"holdfast/zk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
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

	lock := holdfast.NewMutex(c, "/holdfast/locks/stock")
	var paused int64 // the token of a holder that goes on after its time
	for range 2 {
		err := holdfast.Do(ctx, lock, func(ctx context.Context) error {
			h, _ := holdfast.FromContext(ctx)
			paused = cmp.Or(paused, h.Token())
			return sell(ctx, h.Token())
		})
		if err != nil {
			return err
		}
	}
	if err := sell(ctx, paused); errors.Is(err, fence.ErrStale) {
		fmt.Println("refused:", err)
	} else {
		return fmt.Errorf("a stale token was accepted: %v", err)
	}
	return nil
}

// The resource: a number, and the gate before it. In a database, fence.InTx is the gate, and fence.Gate before an HTTP
// service.
var (
	stock = 10
	gate  fence.Gate
)

// sell changes the resource with the token of the lock.
func sell(ctx context.Context, token int64) error {
	leave, err := gate.Enter(ctx, "stock", token)
	if err != nil {
		return err
	}
	defer leave()
	stock--
	fmt.Println("stock", stock)
	return nil
}
