package zkserver_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"holdfast/zkserver"
)

func Example() {
	s, err := zkserver.Open(zkserver.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()

	// … clients connect to l.Addr() …

	fmt.Println(s.Shutdown(context.Background()))
	fmt.Println(<-served)
	// Output:
	// <nil>
	// zkserver: server closed
}
