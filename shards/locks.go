package shards

import (
	"cmp"
	"fmt"
	"slices"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
)

// Path is the path of a shard's Mutex, for holdfast.List and holdfast.Break.
func (s *Shards) Path(shard int) string {
	return fmt.Sprintf("%s/%s/%04d", s.node.Path, queue.ShardQueues, shard)
}

// valid returns why no call can succeed, or nil: the path, or an option.
func (s *Shards) valid() error {
	return cmp.Or(queue.ValidatePath(s.node.Path), s.set.refused)
}

// mutex is the lock at path as a part of the shards: its places look for other kinds of lock at the path of the shards.
func (s *Shards) mutex(path string, more ...holdfast.Option) *holdfast.Mutex {
	part := lend.Part(s.node.Path, queue.Shards).(holdfast.Option)
	return holdfast.NewMutex(s.node.Client, path, append(slices.Concat(s.set.locks, more), part)...)
}
