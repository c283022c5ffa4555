// Package zkserver is a ZooKeeper server of one node that lives in the process: the
// client protocol of Apache ZooKeeper over any [net.Listener], kept in a directory
// or in memory.
//
//	s, err := zkserver.Open(zkserver.Config{Dir: "/var/lib/locks"})
//	if err != nil { … }
//	go s.Serve(listener)
//	…
//	s.Shutdown(ctx)
//
// It speaks every operation of a ZooKeeper 3.8 client, and the four-letter words that
// [Config.FourLetterWords] allows. What it answers is compared with Apache ZooKeeper's answers
// to the same stream of operations (interop/diff_test.go). There is one node, so reconfig is
// disabled.
//
// # Where it differs from Apache ZooKeeper 3.8.0
//
// On purpose, where that one leaks or loses something, or lets itself be stopped; the
// tests know each of these (interop/diff_known_test.go):
//
//   - exists needs READ, as the other reads do, and who may not read a node hears no event
//     of it, also not of what has happened while he was away (CVE-2024-23944);
//   - a one-shot watch, a persistent and a recursive one on the same node are three
//     watches (ZOOKEEPER-4466), and the latter two can be removed alone, as since 3.9;
//   - checkWatches tells of one's own watches, not of everybody's;
//   - a watch on the empty path, which is another name of the root, fires;
//   - only who knows a session's password takes its connection away;
//   - a check outside a transaction is refused, as since 3.8.5, and not left unanswered;
//   - deleteContainer and createSession, which servers say to each other, are refused;
//   - createContainer takes the flag of containers alone, and createTTL those of nodes
//     with a time to live: with others, Apache's server makes something else, or ends;
//   - ACLs may have the scheme x509 without any configuration;
//   - a path that is null is empty; a null list of watches is an empty one; a negative
//     number of ACLs is an error;
//   - sequence numbers wrap, as documented, and do not stick at the largest;
//   - what a client can pile up has limits that Apache's server has not (see [Limits]):
//     -8 answers what is too long by itself, -125 what there is no room for;
//   - an ACL has at most 64 entries and 8 KiB, as it is sent and again with the client's
//     identities in place of auth. Auth adds at most 1 MiB to the ACLs of one transaction.
//     -114 answers a longer ACL, where Apache's server accepts it. A longer ACL in an older
//     store is kept and enforced;
//   - a connection has at most 64 identities, of at most 1 KiB each and 64 KiB together:
//     -115 answers the login that exceeds a bound, and the connection is closed. The subject of
//     a certificate that exceeds it is no identity;
//   - only the superuser writes below /zookeeper/quota, unless [Config.QuotaWritable] is set:
//     -102 answers all others. Apache's server lets everybody write whom the ACLs permit, and
//     these are open. A text there that is longer than 1 KiB is ignored, like a text that is
//     no quota: it counts and refuses no write;
//   - the order of getChildren and getEphemerals is not that of Apache's server. As there, it
//     stays the same until a child, or a node of the session, comes or goes, or the server
//     starts again;
//   - nodes with a time to live are on, where Apache's server has them off by default, see
//     [Config.NoTTLNodes];
//   - of the four-letter words, ruok, isro and envi are allowed by default besides srvr, and
//     envi tells the version alone; gtmk, stmk and hash, where they are allowed, answer that
//     there is nothing of the kind.
//
// # Who may do what
//
// Of ACLs it knows the schemes world, auth, digest, ip, sasl and x509; any other is
// refused, never accepted and ignored. With [Config.Users] clients can authenticate by
// SASL DIGEST-MD5, with [Config.SuperDigest] there is a superuser, and with
// [Config.RequireAuth] nobody can do anything before he has authenticated. For TLS, give
// Serve a listener of crypto/tls; if that verifies client certificates, a client is the
// subject of its own, spelled as Java does ("CN=alice,O=Example").
//
// Here, too, it is stricter than Apache's server on purpose: ACLs can name SASL users
// where there are none, and nobody is let in by them; a SASL client cannot ask to be taken
// for somebody else; where digest is required, a password must be that of a user and not
// just any; a count of responses other than 1 is refused. It is milder in one thing: who
// has yet to authenticate may ping, for one session timeout, and close his session.
//
// # What is promised
//
// Whatever a client was told, in an answer or in a notification, is on disk: also
// what was only read. A crash loses nothing that anybody saw. A zxid is never given
// out twice, so neither is a fencing token. Sessions survive a restart and have their
// full timeout from then on. With [Config.OneMachine], sessions and ephemeral nodes survive
// a crash of the process, and end with the machine.
//
// # Goroutines
//
// The owner (owner.go) touches the tree, the sessions and the watches; Open starts it. It
// applies requests and collects changes and answers in a batch. Package internal/sched decides
// which requests wait for a later batch (turns.go). The committer (commit.go) makes one batch
// durable at a time and then sends its answers, while the owner fills the next one. The owner
// itself writes a batch that need not be synced ([Config.OneMachine]).
// Each connection has a reader, which decodes requests (reader.go), and a writer, which sends
// answers (conn.go). If the server has nothing else to do, the reader takes the place of owner,
// committer and writer for one request (inline.go). The teller (tell.go) wakes writers that have
// notifications only, some at a time. Serve runs on the caller's goroutine.
// The owner ends on Shutdown, Close, linger or a store that failed; it ends the
// committer and the teller, then waits for the connections, closes the store and closes Done.
// The store has a goroutine while it makes a snapshot; closing the store ends it.
package zkserver
