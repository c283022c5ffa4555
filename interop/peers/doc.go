//go:build unix

// Package peers starts the systems that holdfast has to work with, and holdfast
// itself, as real processes on free loopback ports: Apache ZooKeeper alone or as
// an ensemble, `holdfast serve`, and programs of Curator and kazoo.
//
//	zk, err := peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{Servers: 3})
//	defer zk.Close()
//	client, err := zk.Connect(zk.URL())
//
// It is for tests and benchmarks, on Unix. It knows nothing of package testing:
// a peer that is not installed is a [MissingError], and the caller decides
// whether that is a failure.
//
// # Processes
//
// Every process is stopped by its own pid, never by name. On Linux the kernel
// kills it when the test process dies, however that happens.
//
// # Goroutines
//
// Each running process has one goroutine, which started it and waits for it; it
// ends when the process does, so Close ends it. A [Proxy], and a relay between two servers,
// has one that accepts connections and some for each of them; Close ends those too.
package peers
