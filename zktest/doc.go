// Package zktest is httptest for ZooKeeper: a server in the test's process, reached
// over a network in memory, with the faults that a program on ZooKeeper must survive
// at hand.
//
//	srv := zktest.NewServer()
//	defer srv.Close()
//	c := srv.Client()
//
// It is for whatever uses ZooKeeper, with holdfast's locks or without: hand the code under
// test a client of [Server.Client], or make its own dial with what [Server.Config] has, and
// then let happen what happens to a client in production:
//
//   - its session expires: [Server.Expire]
//   - every connection breaks, sessions live on: [Server.CloseClientConnections]
//   - the server crashes and comes back with what was durable: [Server.Restart]
//   - nobody answers, nothing arrives, and no connection breaks: [Server.Stall]
//   - one request is lost, or its answer, or the server is too busy for it: [Server.Intercept]
//
// The examples show what to ask of the code in each case.
//
// It fits inside a testing/synctest bubble, where session timeouts pass in no time, so that
// an hour's outage is tested in milliseconds:
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
// Nothing but memory is used.
//
// The goroutines are those of zkserver, one more for its Serve, and those of the
// clients; Close ends all of them.
package zktest
