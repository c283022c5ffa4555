// Package zkserver is a ZooKeeper server of one node that runs inside the process. It speaks the
// client protocol of Apache ZooKeeper over any [net.Listener], and keeps its data in a directory
// or in memory.
//
//	s, err := zkserver.Open(zkserver.Config{Dir: "/var/lib/locks"})
//	if err != nil { … }
//	go s.Serve(listener)
//	…
//	s.Shutdown(ctx)
//
// It supports every operation of a ZooKeeper 3.8 client, and the four-letter words that
// [Config.FourLetterWords] allows. A test compares its answers with Apache ZooKeeper's answers
// to the same stream of operations (interop/diff_test.go). There is one node, so reconfig is
// disabled.
//
// # Where it differs from Apache ZooKeeper 3.8.0
//
// The differences are on purpose: there, Apache's server leaks or loses something, or a client can
// stop it. A test runs each of the first two groups on both servers (interop/diff_known_test.go).
//
// Watches and sessions:
//
//   - exists needs READ, as the other reads do. A client that may not read a node gets no event of
//     it. That includes changes before the client reconnected (CVE-2024-23944).
//   - A one-shot, a persistent and a recursive watch on one node are three watches
//     (ZOOKEEPER-4466). The latter two can be removed alone, as since 3.9.
//   - checkWatches looks at the watches of its own connection, not at those of all.
//   - A watch on the empty path, which is another name of the root, fires.
//   - Only a client with the session's password closes the session's older connection.
//
// Requests:
//
//   - A check outside a transaction is refused, as since 3.8.5. Apache's server does not answer it.
//   - deleteContainer and createSession are requests between servers. The server refuses them from
//     clients.
//   - createContainer takes the flag of containers only, and createTTL the flags of nodes with a
//     time to live only. With other flags, Apache's server makes another kind of node, or stops.
//   - An ACL may have the scheme x509 without any configuration.
//   - A null path is empty. A null list of watches is empty. A negative number of ACLs is
//     an error.
//   - Sequence numbers wrap, as documented. Apache's stay at the largest number.
//
// Limits. Apache's server has none of these. [Limits] describes those with a setting. In general,
// -8 answers a request that is too long by itself, and -125 a request for which there is no room:
//
//   - An ACL has at most 64 entries and 8 KiB. Both bounds apply to the ACL as it is sent, and again
//     with the client's identities in place of auth. Auth adds at most 1 MiB to the ACLs of one
//     transaction. -114 answers a longer ACL. A longer ACL in an older store is kept and enforced.
//   - A connection has at most 64 identities, of at most 1 KiB each and 64 KiB together. -115
//     answers the login that exceeds a bound, and the connection is closed. The subject of a
//     certificate that exceeds a bound is no identity.
//   - A client that has no session yet, or has not authenticated as required, sends requests of at most
//     4 KiB. The connection that sends a longer one is closed.
//   - -8 answers a request that could write more than 24 MiB into the store.
//   - If Go has a memory limit, the nodes have one, see [Limits.DataBytes]. -125 answers a create or a
//     setData beyond that.
//   - The work of a transaction has a limit, see [Limits.MultiOps]. -8 answers a transaction that
//     exceeds it, and no part of it is done. -5 answers a multi-read that exceeds it, or whose
//     answer is longer than 2 MiB.
//   - A session has at most 100,000 ephemeral nodes, whose paths have at most 32 MiB. -125 answers a
//     create beyond that, see [Limits.EphemeralsPerSession]. At the end of a session with more than
//     3,000, several transactions remove them. Other clients may then see some of them without the
//     others.
//   - The paths that getEphemerals returns have at most 2 MiB. -5 answers a request for more.
//   - A write sends at most some 130,000 notifications. The connections of the other watchers are
//     closed. These clients learn of the change when they reconnect.
//
// Quotas:
//
//   - Only the superuser writes below /zookeeper/quota, unless [Config.QuotaWritable] is set. Other
//     clients get -102. In Apache's server, the ACLs decide, and they are open.
//   - A quota text that is longer than 1 KiB is ignored, like a text that is no quota. It counts
//     nothing and refuses no write.
//
// Defaults and answers:
//
//   - The order of getChildren and getEphemerals is not that of Apache's server. As there, it stays
//     the same until a child, or a node of the session, is created or removed, or the server
//     restarts.
//   - Nodes with a time to live are on, see [Config.NoTTLNodes]. Apache's server has them off by
//     default.
//   - Of the four-letter words, ruok, isro and envi are allowed by default besides srvr. envi tells
//     the version alone. Where gtmk, stmk and hash are allowed, they answer that this server has
//     no trace mask and no digests. The words are not counted as requests that were received.
//
// # Authentication and ACLs
//
// ACLs may use the schemes world, auth, digest, ip, sasl and x509. Any other scheme is
// refused, never accepted and ignored. With [Config.Users], clients can authenticate by
// SASL DIGEST-MD5. With [Config.SuperDigest], there is a superuser. With [Config.RequireAuth],
// a client can do nothing before it has authenticated. For TLS, give Serve a listener of
// crypto/tls. If that listener verifies client certificates, a client has the identity of its
// certificate's subject, spelled as Java does ("CN=alice,O=Example").
//
// The server is stricter here than Apache's, on purpose. ACLs can name SASL users where there are
// none, and such an entry admits nobody. A SASL client cannot ask for the identity of another user.
// Where digest is required, a password must be that of a user. A count of responses other than 1 is
// refused. The server is milder in one thing: for one session timeout, a client that has yet to
// authenticate may ping, and it may close its session.
//
// These settings of Apache's server have no counterpart, because each of them takes ACLs away or adds a user
// beside them:
//
//   - zookeeper.skipACL: ACLs are always checked.
//   - zookeeper.superUser: no SASL user and no certificate is the superuser. Only a digest is (Config.SuperDigest, Apache's
//     zookeeper.DigestAuthenticationProvider.superDigest). A SASL user named super is a user like any other.
//   - zookeeper.letAnySaslUserDoX: no entry of an ACL stands for every SASL user.
//   - zookeeper.DigestAuthenticationProvider.enabled and digestAlg: the scheme digest is always on, with SHA-1.
//
// # Guarantees
//
// Whatever the server has sent to a client, in an answer or in a notification, is on disk. This
// includes data that was only read. A crash loses nothing that anybody saw. A zxid is never given
// twice, so neither is a fencing token, also not across restores of copies that [BackUp] has made, as long as
// no clock is behind that of an earlier server. Sessions survive a restart and have their
// full timeout from then on; those of a copy end. With [Config.OneMachine], sessions and ephemeral nodes survive
// a crash of the process, and end with the machine.
//
// # What one operation costs
//
// A write writes what it changes: the records of its node, its ACL and the counters of its parent, each apart. So
// it costs no more below a node of a megabyte.
//
// All clients share one goroutine, the owner. With the default limits, one operation takes the owner
// at most 5 ms, whatever a client sends. The server does some long work in portions, and serves other
// clients in between: the end of a session with many nodes, the watches of a client that reconnects,
// and sessions that expire together. Longer than 5 ms are:
//
//   - a write to a node with many watches: 2 µs more for each notification, 0.5 s at most;
//   - getChildren of a node whose children's names have more than 1 MiB: 3 ms for each MiB, see
//     [Limits.ChildrenBytes];
//   - a check of more than 50,000 sessions for expiry, twice in a tick, and the four-letter words
//     that list all sessions or watches.
//
// # Goroutines
//
// Open starts the owner (owner.go). Only the owner touches the tree, the sessions and the watches. It
// applies requests and collects changes and answers in a batch. Package internal/sched decides
// which requests wait for a later batch (turns.go). The committer (commit.go) makes one batch
// durable at a time and then sends its answers, while the owner fills the next one. The owner
// itself writes a batch that need not be synced ([Config.OneMachine]).
//
// Each connection has a reader, which decodes requests (reader.go), and a writer, which sends
// answers (conn.go). If the server has nothing else to do, the reader takes the place of owner,
// committer and writer for a few requests that came together (inline.go). The teller (tell.go) wakes
// writers that have notifications only, some at a time. Serve runs on the caller's goroutine.
//
// For each session without a connection that belongs to processes of this machine, a goroutine waits for
// their end (bound.go).
//
// The owner ends on Shutdown, Close, linger or a failed store. It ends the committer and the
// teller. Then it waits for the connections, closes the store and closes Done. The store has a
// goroutine while it makes a snapshot; closing the store ends it.
package zkserver
