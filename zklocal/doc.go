// Package zklocal keeps a ZooKeeper-protocol store in a directory that the
// processes of one user on one machine share: what file://DIR stands for. As with
// SQLite there is nothing to install and no daemon to look after.
//
// Whoever holds the file lock on the directory is its host: it opens the store
// (package zkserver) and serves it on a Unix socket inside the directory. Everybody
// else connects; clients in the host's own process do so over memory. When the host
// exits or is killed, one of the others takes over; sessions are part of the store, so
// they go on, and with them every ephemeral node and every lock that is held. When the
// machine restarts, they end ([zkserver.Config.OneMachine]).
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
// everything.
//
// It must be on a local disk. A Unix socket does not reach another machine, and file locks of
// a network file system may not exclude one. So a directory on a file system that other
// machines can mount is refused with [ErrShared]: NFS, SMB, 9p, virtiofs, clustered file
// systems, the shared folders of virtual machines, and FUSE, unless it is known to be of one
// machine (ntfs-3g, fuse-overlayfs, gocryptfs and a few more). For locks between machines, run
// holdfast serve on one of them. A shared file system below an overlay is not noticed.
//
//	host.lock    the lock that makes its holder the host; never deleted
//	host.pid     the host's process id in decimal, for people and error messages
//	start.lock   held while somebody starts a host, so that twenty processes start one
//	socket       the Unix socket (or a file with its path, see below)
//
// and the files of the store. host.lock alone decides who the host is. A process id
// can be reused and a socket file outlives a killed process, so neither is trusted
// for more than a message: only the holder of host.lock replaces the socket, and a
// host that is merely stopped (SIGSTOP) keeps its place. A socket that is removed while
// its host lives is made again.
//
// # When the directory is removed or moved
//
// The sessions in it are over, and all locks there are lost. The sessions end before
// another process can hold a lock in the directory that is made anew at the path:
//
//   - The host stops and closes all connections. On Linux it is told by inotify, within
//     about a millisecond; elsewhere it looks once a second. The same look finds what
//     inotify cannot see, such as a file system that is mounted over the directory.
//   - A client whose connection breaks looks at the directory, and so does a client that
//     dials. If the directory is gone, the client's session ends at once, without a server.
//     A connected client also looks once a second, in case its host is stopped.
//   - The next host of the path waits for the former one, which keeps a claim to the path for
//     half a second after it has stopped: the holders have this time to end their work. The
//     next host does not wait longer than 2.5 seconds, so a stopped process cannot block it.
//
// The claim is an abstract Unix socket, so there is one on Linux only, and none between
// processes in different network namespaces. There, the margin is the time that the next
// host takes to start.
//
// The directory counts as removed when its path no longer leads to the same host.lock. So a
// directory that is moved back later is a new one, and so is one whose host.lock was deleted.
// Removing only the files of the store is not noticed.
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
// A [Host] has run, which watches over the server, and the server's accept loop on the
// socket. On Linux there are also the reader of inotify and one or two that answer
// newcomers. run ends them all when the server has stopped; then it gives the directory back
// and closes [Host.Done]. A [Store] has none of its own: connecting, starting a host and
// becoming one happen in the goroutine that calls the Dial hook, and a timer of each
// connection looks at the directory, until the connection is closed.
package zklocal
