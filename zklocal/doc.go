// Package zklocal keeps a ZooKeeper-protocol store in a directory that the processes of one
// user on one machine share: file://DIR. As with SQLite, there is nothing to install and no
// daemon to look after.
//
// The process that holds the file lock on the directory is its host. It opens the store
// (package zkserver) and serves it on a Unix socket inside the directory. All other processes
// connect to the socket; clients in the host's own process connect over memory. When the host
// exits or is killed, another process takes over. Sessions are part of the store, so they go
// on, and with them every ephemeral node and every lock that is held. When the machine
// restarts, they end ([zkserver.Config.OneMachine]). On Linux, a session also ends as soon as its process is
// dead, so the locks of a killed process are free at once; see [zk.Config.Outlive].
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
// The directory has mode 0700 and belongs to its user. The files in it have mode 0600. There is
// no other access control: a process that can reach the socket has all permissions.
//
// The directory must be on a local disk. A Unix socket does not reach another machine, and file
// locks of a network file system may not exclude one. So a directory on a file system that
// other machines can mount is refused with [ErrShared]: NFS, SMB, 9p, virtiofs, clustered file
// systems, the shared folders of virtual machines, and FUSE, unless it is known to be local
// (ntfs-3g, fuse-overlayfs, gocryptfs and a few more). For locks between machines, run holdfast
// serve on one of them. A shared file system below an overlay is not detected.
//
//	host.lock    the lock that makes its holder the host; never deleted
//	host.pid     the host's process id in decimal, for people and error messages
//	start.lock   held while somebody starts a host, so that twenty processes start one
//	socket       the Unix socket (or a file with its path, see below)
//
// and the files of the store. host.lock alone decides which process is the host. Process ids
// are reused and a socket file outlives a killed process, so both serve for messages only. Only
// the holder of host.lock replaces the socket, and a stopped host (SIGSTOP) remains the host.
// If the socket is removed while its host lives, the host creates it again.
//
// # When the directory is removed or moved
//
// The sessions in it are over, and all locks there are lost. The sessions end before another
// process can hold a lock in the directory that replaces it:
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
// The claim is an abstract Unix socket, so it exists on Linux only, and only between processes
// of one network namespace. Elsewhere, the margin is the time that the next host takes to
// start.
//
// The directory counts as removed when its path no longer leads to the same host.lock. So a
// directory that is moved back later is a new one, and so is one whose host.lock was deleted.
// If only the files of the store are removed, that is not detected.
//
// # Long paths
//
// A Unix socket address holds about a hundred bytes, a path four thousand. On Linux, longer
// paths are bound and dialled through /proc/self/fd of the opened directory. Elsewhere (or
// without /proc) the socket is created in a private directory for temporary files, and the file
// "socket" contains its path.
//
// # Goroutines
//
// A [Host] has run, which waits for the server's end and checks the directory, and the server's
// accept loop on the socket. On Linux it also has the reader of inotify and one or two
// goroutines that answer newcomers. When the server has stopped, run ends them all, releases
// the directory and closes [Host.Done]. A [Store] has no goroutines: connecting, starting a
// host and becoming the host happen in the goroutine that calls the Dial hook. Until it is
// closed, each connection has a timer that checks the directory.
package zklocal
