// Package job runs a command under a lock: the flags of its end, its environment, and its exit code.
package job
