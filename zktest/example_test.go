package zktest_test

import (
	"context"
	"fmt"

	"holdfast/zk"
	"holdfast/zktest"
)

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	path, _, err := c.Create(context.Background(), "/job-", nil, zk.EphemeralSequential)
	fmt.Println(path, err)
	// Output: /job-0000000000 <nil>
}
