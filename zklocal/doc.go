// Package zklocal keeps a ZooKeeper-protocol store in a directory that the
// processes of one user on one machine share: what file://DIR stands for. As with
// SQLite there is nothing to install and no daemon to look after.
//
// Whoever holds the file lock on the directory is its host: it opens the store
// (package zkserver) and serves it on a Unix socket inside the directory. Everybody
// else connects. When the host exits or is killed, one of the others takes over;
// sessions are part of the store, so they go on, and with them every ephemeral node
// and every lock that is held.
//
//	store, err := zklocal.Open(zklocal.Config{Dir: dir})
//	...
//	defer store.Close()
//	client, err := zk.Dial(ctx, store.Config())
//	...
//	defer client.Close()
//
// # The directory
//
// It has mode 0700 and belongs to the user who uses it; the files in it have mode
// 0600. That is the whole access control: who can reach the socket can do
// everything. It must be on a local disk, because a Unix socket does not reach
// another machine.
//
//	host.lock    the lock that makes its holder the host; never deleted
//	host.pid     the host's process id in decimal, for people and error messages
//	start.lock   held while somebody starts a host, so that twenty processes start one
//	socket       the Unix socket (or a file with its path, see below)
//
// and the files of the store. host.lock alone decides who the host is. A process id
// can be reused and a socket file outlives a killed process, so neither is trusted
// for more than a message: only the holder of host.lock replaces the socket, and a
// host that is merely stopped (SIGSTOP) keeps its place. Removing the directory ends
// its host within about a second, and with it everything that was held there.
//
// # Long paths
//
// A Unix socket address holds about a hundred bytes, a path four thousand. On Linux
// a longer path is bound and dialled through /proc/self/fd of the opened directory.
// Elsewhere (or without /proc) the socket is made in a private directory for
// temporary files and the file "socket" names it.
//
// # Goroutines
//
// A [Host] has two: run, which watches over the server, and the server's accept loop
// on the socket. Both end when the server stops; run then gives the directory back
// and closes [Host.Done]. A [Store] has none of its own: connecting, starting a host
// and becoming one happen in the goroutine that calls the Dial hook.
package zklocal
