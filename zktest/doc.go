// Package zktest is httptest for ZooKeeper: a server in the test's process, reached
// over a network in memory, with the faults that a program on ZooKeeper must survive
// at hand.
//
//	srv := zktest.NewServer()
//	defer srv.Close()
//	c := srv.Client()
//
// It fits inside a testing/synctest bubble, where session timeouts pass in no time;
// make the server inside the bubble. Nothing but memory is used.
//
// The goroutines are those of zkserver, one more for its Serve, and those of the
// clients; Close ends all of them.
package zktest
