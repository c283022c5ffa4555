package zk_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"holdfast/zk"
	"holdfast/zktest"
)

// A ChildrenWOp watches the same as ChildrenW: creation and deletion of children and the
// deletion of the node itself, but not its data.
func TestChildrenCanBeWatchedInAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c, other := srv.Client(), srv.Client()
		for _, path := range []string{"/a", "/b"} {
			if _, _, err := other.Create(t.Context(), path, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		r, err := c.Pipeline(t.Context(), zk.ChildrenWOp("/a"), zk.ChildrenWOp("/none"), zk.ChildrenWOp("/b"), zk.ChildrenOp("/b"))
		if !errors.Is(err, zk.ErrNoNode) || len(r) != 4 || r[0].Watch == nil || r[1].Watch != nil || r[2].Watch == nil || r[3].Watch != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, path := range []string{"/a", "/b"} {
			if _, err := other.Set(t.Context(), path, []byte("news"), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i, w := range []*zk.Watch{r[0].Watch, r[2].Watch} {
			select {
			case ev := <-w.C:
				t.Errorf("%d: %+v after a change of the data; want no event", i, ev)
			default:
			}
		}
		if _, _, err := other.Create(t.Context(), "/a/child", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if err := other.Delete(t.Context(), "/b", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if ev := <-r[0].Watch.C; ev.Type != zk.EventNodeChildrenChanged || ev.Path != "/a" {
			t.Errorf("%+v", ev)
		}
		if ev := <-r[2].Watch.C; ev.Type != zk.EventNodeDeleted || ev.Path != "/b" {
			t.Errorf("%+v", ev)
		}
		if _, err := c.MultiRead(t.Context(), zk.ChildrenWOp("/a")); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("in a multi-read: %v", err)
		}
		if _, err := c.Multi(t.Context(), zk.ChildrenWOp("/a")); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("in a transaction: %v", err)
		}
	})
}
