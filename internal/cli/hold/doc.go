// Package hold acquires locks for commands: run, lock and unlock, and what elect and shard share with them.
package hold
