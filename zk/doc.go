// Package zk is a client for Apache ZooKeeper (3.5 to 3.9) and for holdfast's own server. Every
// call takes a context. Requests are pipelined. A session knows by its own clock when it can no
// longer be trusted.
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
// A [Client] lives as long as the program wants it to. A [Session] is one life of the client at
// the ensemble, from its creation to its expiry. Both have the same operations: those of [Calls].
// An operation of the Client uses the current session, and waits for one if there is none. An
// operation of a Session fails with [ErrSessionExpired] once the session is over. Code that
// depends on ephemeral nodes, such as a lock, belongs on a Session: there it cannot silently go on
// in another session. Package holdfast/zk/admin has the operations that only operators use.
//
// # Calls
//
// Every operation waits for a connection if there is none, and then for its answer, until its
// context ends. If the context never ends, the operation waits for as long as the client (or
// the session) lives. The error is an [*Error]: it names the operation and the path. Compare it
// with errors.Is, which also finds the cause of the context. There is one exception: if that
// cause is itself a server's error in another call, or the loss of another call's connection,
// errors.Is does not find it. So [ErrNoNode] is always about this call.
//
// # When is a session over?
//
// A session is over when the server says so or when its deadline passes, whichever comes first.
// [Session.Deadline] is the moment until which the server certainly keeps the session. When it
// passes, the client gives the session up for good. While nothing depends on the session, any
// answer extends the deadline. A lock depends on its session, and declares that with
// [Session.Lease]. From then on, against an ensemble, only requests that have certainly reached
// the leader count (proof.go): only the leader expires sessions, and its followers answer
// without asking it. An idle session re-attaches before it grants a lease.
//
// # What may have happened
//
// When a connection breaks, the requests that were sent and not answered fail with
// [ErrConnectionLoss]: the server may or may not have executed them. The same holds if a
// context ends after its request was sent. [MayHaveHappened] tells such errors from those of
// requests that were never sent. [SafeToRetry] reports whether a request can simply be sent
// again. Requests that were not sent yet stay in the queue and go out on the next connection of
// the same session.
//
// If a caller retries a write after an error that MayHaveHappened, the first attempt may have
// succeeded: then ErrNodeExists, ErrNoNode or ErrBadVersion is its result.
//
// # Watches
//
// A watch is one-shot, as in ZooKeeper: [Watch].C gets one [Event], before the reply to any
// read sent later. Watches survive a reconnect of the session. When the session ends, each gets
// an event that carries the error.
//
// [Calls.AddWatch] makes a [PersistentWatch], which reports every change of a node or of a
// tree until it is stopped. If it cannot deliver events, because its reader is too slow or
// there is no connection, it reports the gap: see [ErrEventsMissed].
//
// # Which server has what
//
// Most operations are in every ZooKeeper since 3.5. The others name the version that they need.
// A server that does not know an operation answers [ErrUnimplemented] and closes the
// connection, not the session: every other outstanding request fails with [ErrConnectionLoss].
// So do not try such operations out on a client that does other work.
//
// # Security
//
// [Config].TLS encrypts connections and authenticates the server. With a certificate of its
// own, the client authenticates itself too (mutual TLS, scheme x509). [Config].Auth
// authenticates the client by password: [DigestAuth] and [SASLDigestAuth]. The client
// authenticates every connection, also after a reconnect, before it sends anything else. If a
// server refuses that, or requires an identity that the client does not have, the client tries
// another server. For an existing session, it does so until the deadline of the session. If every
// server refuses a new session, the client gives up, and every call fails with
// [ErrAuthFailed]. If the client does not accept a server's certificate, it tries another
// server, as if that one were down. Errors and logs never show passwords.
//
// # Coming from go-zookeeper
//
//   - zk.Connect and its channel of events: [Dial], which returns with a session;
//     [Session.Context] reports its end, [Trace] everything else.
//   - After an expiry, a Conn goes on in a new session; a [Session] does not, a Client does.
//   - WorldACL(PermAll) is what a create without ACL means; AuthACL is ACL{Perms: PermAll,
//     Scheme: "auth"}; there is [DigestACL]. AddAuth is Config.Auth.
//   - ErrConnectionClosed is [ErrConnectionLoss]; [MayHaveHappened] says more.
//   - Exists returns no error for a missing node, and the *W functions return a
//     [Watch], which can be stopped.
//   - CreateProtectedEphemeralSequential and Lock: package holdfast.
//
// # Goroutines
//
// A Client owns one goroutine, run, which creates sessions and runs each of them state by state
// (session.go). Per connection, run owns a reader and a writer (conn.go), and ends both before
// it goes on. [Client.Close] ends run and waits for it. The client starts no other goroutine,
// and calls no code of the user on these three but that in Config (Dial, Trace, Logger).
//
// All types are safe for concurrent use.
package zk
