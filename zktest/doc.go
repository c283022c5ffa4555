// Package zktest is httptest for ZooKeeper: a server in the test's process, reached over a
// network in memory. It can produce the faults that a program on ZooKeeper must survive.
//
//	srv := zktest.NewServer()
//	defer srv.Close()
//	c := srv.Client()
//
// It is for any program that uses ZooKeeper, with holdfast's locks or without. Give the code
// under test a client of [Server.Client], or let it dial with [Server.Config]. Then produce the
// faults of production:
//
//   - its session expires: [Server.Expire]
//   - every connection breaks, sessions live on: [Server.CloseClientConnections]
//   - the server crashes and comes back with what was durable: [Server.Restart]
//   - nobody answers, nothing arrives, and no connection breaks: [Server.Stall]
//   - its clock is set, or the next leader has another one: [Server.MoveClock]
//   - one request is lost, or its answer, or the server is too busy for it: [Server.Intercept]
//
// The examples show what the code must do in each case.
//
// It works inside a testing/synctest bubble, where session timeouts take no real time, so a
// test of an hour's outage takes milliseconds:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := zktest.NewServer() // inside the bubble
//		defer srv.Close()
//		...
//		resume := srv.Stall()
//		time.Sleep(time.Hour)
//		resume()
//		...
//	})
//
// It uses memory only, no files and no sockets.
//
// The goroutines are those of zkserver, one more for its Serve, and those of the clients. Close
// ends all of them.
package zktest
