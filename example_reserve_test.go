package holdfast_test

import (
	"context"
	"fmt"
	"log"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

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
