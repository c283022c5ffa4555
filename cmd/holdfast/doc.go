// Command holdfast runs a command while it holds a lock, and shows who holds what.
//
//	holdfast run nightly -- ./backup.sh
//	holdfast lock db/migrate
//	holdfast elect scheduler -- ./scheduler
//	holdfast ls
//	holdfast status nightly
//	holdfast serve --data-dir DIR --listen 127.0.0.1:2181
//
// With nothing configured the locks are in a directory that the user's processes share;
// --server or HOLDFAST_SERVER names a ZooKeeper ensemble instead.
//
// One file is one subcommand. What they share: server.go (where the locks are),
// name.go (lock names), kinds.go (kinds and layouts), acquire.go (the wait for a lock), supervise.go and job_*.go (the
// command under a lock), host.go (the file:// store's detached host), fault.go (errors
// and exit codes). What serve needs is in serve_*.go, admin.go, metrics.go and sdnotify.go.
//
// # Goroutines
//
// Each subcommand runs in the main goroutine. A wait for a lock has one goroutine in
// holdfast.Lock, one that prints who is ahead, and one that watches whether any server
// can be reached; they end with the wait. A running command has one that waits for its
// processes, on a thread of its own; it ends when the command has exited. serve has one
// per listener, one that answers HTTP on --admin and one that feeds a watchdog; all end
// with the server.
package main
