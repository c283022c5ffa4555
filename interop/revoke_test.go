//go:build unix

package interop

import (
	"testing"
	"time"

	"holdfast"
)

// Holdfast asks Curator's holders to release, and Curator asks holdfast's. Afterwards our node
// has its data again.
func TestRevokeAcrossLibraries(t *testing.T) {
	s := newStage(t)
	t.Run("ours asks Curator", func(t *testing.T) {
		s := s.in(t)
		dir := s.directory("curators")
		a := s.java.actor()
		s.java.do(t, a+" acquire-revocable mutex "+dir)
		queue, err := holdfast.List(s.ctx, s.admin, dir)
		must(t, err)
		if len(queue) != 1 {
			t.Fatalf("%+v; want one", queue)
		}
		must(t, holdfast.Revoke(s.ctx, s.admin, dir, queue[0].Token))
		if got := s.java.answer(t, a+" was asked"); got != dir {
			t.Errorf("asked for %s", got)
		}
		s.java.do(t, a+" release mutex "+dir)
	})
	for name, opts := range map[string][]holdfast.Option{
		"Curator asks ours that has an owner": {holdfast.WithOwner("api-7")},
		"Curator asks ours that has nothing":  nil,
		"Curator asks ours that has a value":  {holdfast.WithValue([]byte("10.0.0.5"))},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			dir := s.directory("ours" + s.java.actor())
			h, err := holdfast.NewMutex(dialURL(t, "zk://"+s.addr), dir, opts...).Lock(s.ctx)
			must(t, err)
			before, _, err := s.admin.Get(s.ctx, h.Path())
			must(t, err)
			s.java.do(t, s.java.actor()+" revoke mutex "+h.Path())
			select {
			case <-h.Revoked():
			case <-time.After(stepTime):
				t.Fatal("not asked")
			}
			s.await(func() string {
				data, _, err := s.admin.Get(s.ctx, h.Path())
				must(t, err)
				if string(data) != string(before) {
					return "the node had " + string(before) + " and has " + string(data)
				}
				return ""
			})
			must(t, h.Unlock())
		})
	}
}
