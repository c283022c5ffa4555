// Package tested is an import that only one process may do at a time, with a test of what it does when its lock is lost.
package tested

import (
	"context"

	"holdfast"
	"holdfast/zk"
)

// Import stores each row under the lock, and stops when the lock is lost. store is what must not run twice at a time.
func Import(ctx context.Context, c *zk.Client, rows []string, store func(row string)) error {
	return holdfast.Do(ctx, holdfast.NewMutex(c, "/holdfast/locks/import"), func(ctx context.Context) error {
		for _, row := range rows {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			store(row)
		}
		return nil
	})
}
