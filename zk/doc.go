// Package zk is a client for Apache ZooKeeper (3.5 to 3.9) and for holdfast's own
// server. Every call takes a context, requests are pipelined, and a session knows
// by its own clock when it can no longer be trusted.
//
//	c, err := zk.Dial(ctx, zk.Config{Servers: []string{"127.0.0.1:2181"}})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	name, stat, err := c.Create(ctx, "/jobs/job-", data, zk.EphemeralSequential)
//
// # Client and Session
//
// A [Client] lives as long as the program wants it to; a [Session] is one life of
// it at the ensemble, from its creation to its expiry. Both have the same
// operations. Those of the Client use whatever session is there and wait for one if
// none is; those of a Session fail with [ErrSessionExpired] once it is over. What
// depends on ephemeral nodes (a lock) belongs on a Session, so that it cannot
// silently go on in another life.
//
// # Calls
//
// Every operation waits for its answer, for a connection first if there is none, and at
// most until its context ends; a context that never ends means to wait for as long as the
// client (or the session) lives. The error is an [*Error]: it names the operation and the
// path, and is compared with errors.Is, also with the cause of the context. Only where that
// cause is itself what a server said of another call, or the loss of its connection, it is
// not: [ErrNoNode] is always about this call.
//
// # When is a session over?
//
// When the server says so, or first, by our own clock: [Session.Deadline] is the
// moment until which the session is certain to be kept. When it passes, the session is
// given up for good. While nothing depends on the session, any answer moves the deadline
// on. A lock, for example, depends on it, and says so with [Session.Lease]. From then on,
// against an ensemble, only what has certainly reached the leader counts (proof.go): the
// leader alone ends sessions, and its followers answer without asking it. An idle session
// attaches again before it grants a lease.
//
// # What may have happened
//
// When a connection breaks, requests that were on their way fail with
// [ErrConnectionLoss]: they may or may not have been executed. The same holds when a
// context ends while the request is on its way. [MayHaveHappened] tells such errors
// from those of requests that never left, and [SafeToRetry] those that may simply be
// made again. Requests that were not sent yet stay in
// the queue and go out on the next connection of the same session.
//
// Who sends a write again after an error that MayHaveHappened has to reckon with the
// first one's success: ErrNodeExists, ErrNoNode or ErrBadVersion may be its doing.
//
// # Watches
//
// A watch is one-shot, as in ZooKeeper: [Watch].C gets one [Event], before the reply
// to any read sent later. Watches survive a reconnect of the session; when the
// session ends, each gets an event that carries the error.
//
// [Client.AddWatch] makes a [PersistentWatch], which tells of every change of a node or
// of a tree until it is stopped. What it could not deliver, because its reader was too
// slow or there was no connection, it does not hide: see [ErrEventsMissed].
//
// # Which server has what
//
// Most operations are in every ZooKeeper since 3.5. Those that need a newer one say so.
// A server that does not know an operation answers [ErrUnimplemented] and closes the
// connection, not the session: whatever else was under way fails with
// [ErrConnectionLoss]. So do not try them out on a client that does other work.
//
// # Security
//
// [Config].TLS encrypts connections and checks who the server is; with a certificate of
// its own, the client says who it is (mutual TLS, scheme x509). [Config].Auth does so by
// password: [DigestAuth] and [SASLDigestAuth]. Every connection is authenticated before
// anything else is sent on it, after a reconnect as at first. If that is refused twice
// in a row, or if a server demands an identity that the client has not, the client gives
// up: the session ends, and everything fails with [ErrAuthFailed]. A server whose
// certificate is not accepted is only left for another, like one that is down. Neither
// errors nor logs show passwords.
//
// # For those who know go-zookeeper
//
//   - zk.Connect and its channel of events: [Dial], which returns with a session;
//     [Session.Context] tells of its end, [Trace] of everything else.
//   - After an expiry, a Conn goes on in a new session; a [Session] does not, a Client does.
//   - WorldACL(PermAll) is what a create without ACL means; AuthACL is ACL{Perms: PermAll,
//     Scheme: "auth"}; there is [DigestACL]. AddAuth is Config.Auth.
//   - ErrConnectionClosed is [ErrConnectionLoss]; [MayHaveHappened] says more.
//   - Exists is no error for a node that is not there, and the *W functions return a
//     [Watch], which can be stopped.
//   - CreateProtectedEphemeralSequential and Lock: package holdfast.
//
// # Goroutines
//
// A Client owns one goroutine, run, which makes sessions and lives each of them
// state by state (session.go). Per connection, run owns a reader and a writer
// (conn.go) and ends both before it goes on. [Client.Close] ends run and waits for
// it. Nothing else is started; no callback of the user runs on any of the three.
//
// All types are safe for concurrent use.
package zk
