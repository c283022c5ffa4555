package zklocal_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"holdfast/zk"
	"holdfast/zklocal"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := zklocal.Open(zklocal.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := zk.Dial(ctx, store.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	path, _, err := client.Create(ctx, "/greeting", []byte("hello"), zk.Persistent)
	fmt.Println(path, err)
	// Output: /greeting <nil>
}
