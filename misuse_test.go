package holdfast_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/shards"
	"holdfast/zktest"
)

// An ownLocker is a Locker of a program.
type ownLocker struct{ holdfast.Locker }

// The error of a mistake says one thing that is wrong, where, and what to do. It has no words that are only in the
// sources.
func TestErrorsOfMistakesSayWhatToDo(t *testing.T) {
	const path = "/app/jobs"
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		lock := func(l holdfast.Locker) error {
			h, err := l.TryLock(t.Context())
			if err == nil {
				h.Unlock()
			}
			return err
		}
		ctx := t.Context()
		do := func(o *once.Once) error {
			_, err := o.Key("key").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
			return err
		}
		run := func(n int, opts ...shards.Option) error {
			return shards.New(c, path, n, opts...).Run(ctx, func(context.Context, shards.Shard) error { return nil })
		}
		for _, tt := range []struct {
			err  error
			says string
		}{
			{lock(holdfast.NewMutex(c, "")), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewSemaphore(c, "", 2).Locker(1)), "holdfast: try acquire: invalid path: it is empty"},
			{lock(holdfast.NewNodeLock(c, "")), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewTree(c, "").Path("a")), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewTree(c, "/").Path("")), "holdfast: try lock /: invalid path \"/\": the root cannot be a lock"},
			{lock(holdfast.NewTree(c, "/a/").Path("")), `holdfast: try lock /a/: invalid path "/a/": it ends with /`},
			{lock(holdfast.NewMultiLock(holdfast.NewMutex(c, ""))), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewMutex(c, strings.Repeat("/a", 129))), "it has 129 parts, and the path of a lock has at most 128"},
			{do(once.New(c, "")), "holdfast: do: invalid path: it is empty"},
			{shards.New(c, "", 2).Run(ctx, nil), "holdfast: run shards: invalid path: it is empty"},
			{lock(holdfast.NewMultiLock()), "holdfast: try lock: bad arguments: a MultiLock needs at least one lock"},
			{lock(holdfast.NewMultiLock(nil)), "a MultiLock got a nil Locker"},
			{lock(holdfast.NewMultiLock(reserve.Locker(holdfast.NewMutex(c, path)))), "wrap the whole MultiLock instead"},
			{lock(holdfast.NewMultiLock(ownLocker{})), "it takes the locks of package holdfast"},
			{lock(holdfast.NewMultiLock(holdfast.NewMutex(c, path+"/a"), holdfast.NewTree(c, path).Path("b"))), path + "/a is in the Tree " + path + ", which refuses other locks at its path and below: take it as a path of that Tree"},
			{lock(holdfast.NewMultiLock(holdfast.NewTree(c, path).Path("b"), holdfast.NewTree(c, path+"/a").Path(""))), "is in the Tree " + path},
			{lock(holdfast.NewMutex(c, path, holdfast.WithLayout(holdfast.Layout{}))), "invalid layout: it has no Mutex: fill in Mutex"},
			{lock(holdfast.NewRWMutex(c, path, holdfast.WithLayout(layout.WriteLock)).RLocker()), "invalid layout writelock: it has no read side: curator, kazoo and hostrw have one"},
			{lock(holdfast.NewSemaphore(c, path, 2, holdfast.WithLayout(layout.WriteLock)).Locker(1)), "it has no semaphore: curator and kazoo have one"},
			{lock(holdfast.NewSemaphore(c, path, 0).Locker(1)), "none is stored, and this caller claims none: claim one, or store one with SetLimit"},
			{lock(holdfast.NewSemaphore(c, path, -1).Locker(1)), "the claim is -1: want 1 or more"},
			{lock(holdfast.NewSemaphore(c, path, 2).Locker(0)), "0 permits asked for: want 1 or more"},
			{holdfast.NewSemaphore(c, path, 2).SetLimit(ctx, 0), "semaphore limit: 0: want 1 or more"},
			{run(0), "number of shards: 0: want 1 to 65536"},
			{run(2, shards.WithWeight(1<<20+1)), "WithWeight(1048577): want 0 to 1048576"},
			{run(2, shards.WithSettle(-1)), "holdfast: run shards " + path + ": bad arguments: WithSettle(-1ns) is negative"},
		} {
			if tt.err == nil || !strings.Contains(tt.err.Error(), tt.says) {
				t.Errorf("%v; want %q in it", tt.err, tt.says)
			}
			if text := fmt.Sprint(tt.err); internal.MatchString(text) || strings.Count(text, "holdfast: ") > 1 {
				t.Errorf("%v; want no word of the sources, and one beginning", text)
			}
		}
	})
}

// internal finds types that are not exported, and holes where a text is missing.
var internal = regexp.MustCompile(`\b(holdfast|queue|names|zk)\.[a-z]| :|  |<nil>|%!`)
