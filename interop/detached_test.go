//go:build unix

package interop

import (
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
)

// A lock that no session owns takes the place of its waiter, before peers that wait for that. They wait for it, also
// when its maker has gone, and have the lock when it is unlocked. Apache's server has no nodes with a time to live
// unless it is told to, so a lock that expires is an ordinary node there.
func TestPeersWaitForADetachedLock(t *testing.T) {
	s := newStage(t)
	for name, tt := range map[string]struct {
		theirs func(s *stage, dir string) party
		layout holdfast.Layout
	}{
		"Curator":      {func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) }, layout.Curator},
		"go-zookeeper": {func(s *stage, dir string) party { return s.rivals(dir) }, layout.Curator},
		"kazoo":        {func(s *stage, dir string) party { return s.told(s.python, "lock", dir) }, layout.Kazoo},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			dir := s.directory("detached" + s.java.actor())
			in := holdfast.WithLayout(tt.layout)
			h, err := holdfast.NewMutex(s.admin, dir, in).Lock(s.ctx)
			must(t, err)
			maker := dialURL(t, "zk://"+s.addr)
			var claim holdfast.Claim
			claimed := make(chan error, 1)
			go func() {
				var err error
				claim, err = holdfast.NewDetached(maker, dir, time.Hour, in).Lock(s.ctx)
				claimed <- err
			}()
			s.children(dir, 2)
			theirs := tt.theirs(s, dir)
			theirs.begin()
			s.watched(dir+"/"+s.children(dir, 3)[1], 1)
			must(t, h.Unlock())
			must(t, <-claimed)
			must(t, maker.Close())
			s.watched(dir+"/"+s.children(dir, 2)[0], 1) // the peer waits for the node that came in the waiter's place
			queue, err := holdfast.List(s.ctx, s.admin, dir, tt.layout)
			must(t, err)
			if len(queue) != 2 || !queue[0].Detached || !queue[0].Held || queue[1].Held || queue[0].Token != claim.Token || !queue[0].Expires.Equal(claim.Expires) {
				t.Errorf("%+v; want the claim %+v, and the peer behind it", queue, claim)
			}
			must(t, holdfast.NewDetached(s.admin, dir, 0, in).Unlock(s.ctx, claim.ID))
			if got := theirs.result(); got != "done" {
				t.Error(got)
			}
			theirs.end()
		})
	}
}
