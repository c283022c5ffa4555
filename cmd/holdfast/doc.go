// Command holdfast runs a command while it holds a lock, and shows who holds which lock.
//
//	holdfast run nightly -- ./backup.sh
//	holdfast lock db/migrate
//	holdfast elect scheduler -- ./scheduler
//	holdfast shard --count 16 orders -- ./consume
//	holdfast ls
//	holdfast status nightly
//	holdfast doctor
//	holdfast bench
//	holdfast serve --data-dir DIR --listen 127.0.0.1:2181
//
// Without configuration, the locks are in a directory that the user's processes share. --server or
// HOLDFAST_SERVER gives a ZooKeeper ensemble instead.
//
// The commands are in packages below internal/cli, most of them named after the command. internal/cli/root lists them. Flags of the
// client commands, configuration files and connections are in internal/cli/conn, tables, messages and exit codes in
// internal/cli/term.
//
// # Goroutines
//
// Each subcommand runs in the main goroutine. A wait for a lock has one goroutine in holdfast.Lock,
// one that prints the holder and the position, and one that watches whether a server answers. They end
// with the wait. A running command has one that waits for its processes, on a thread of its own; it
// ends when the command has exited. elect --http has one that accepts connections, one for each connection, and
// one that follows the election; they end with the process. shard has those of shards.Shards, and for each
// command those of a running command and one that stops it. doctor has one per examination and per address of
// a server; those that hang are left behind at the timeout. bench has one per client, and one that prints the
// progress. serve has one goroutine per listener, one that answers HTTP on --admin, and one that feeds a
// watchdog. They end with the server. Completion asks the server in one, which ends with the process if the
// server does not answer.
package main
