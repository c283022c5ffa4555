package zkserver

import (
	"context"

	"holdfast/zkserver/internal/tree"
)

// SetUsers replaces Users, SuperDigest and RequireAuth of the server's Config by those of cfg.
// It ignores the other fields. It closes the connections of users that are gone or have another
// password. Their clients may connect again, and have to authenticate anew. Their sessions live
// on until they time out.
//
// If cfg is not valid, SetUsers returns an error and changes nothing. If ctx ends first, the
// error is its cause, and the change may happen later. If the server has stopped, the error is
// ErrServerClosed, or why it stopped.
func (s *Server) SetUsers(ctx context.Context, cfg Config) error {
	users, err := newUsers(cfg)
	if err != nil {
		return err
	}
	return s.inTurn(ctx, func(done chan<- struct{}) {
		old := s.users
		s.users = users
		for _, c := range s.owner.watchers {
			if !users.knows(c.owned.identities, &old) {
				s.cfg.Logger.Info("zkserver: connection closed: its user is gone or has another password", "remote", c.nc.RemoteAddr())
				s.finish(c)
				continue
			}
			c.owned.admitted = users.admits(c.owned.identities)
		}
		close(done)
	})
}

// knows reports whether identities that clients proved to old are still valid.
func (u *users) knows(ids []tree.Identity, old *users) bool {
	for _, id := range ids {
		switch {
		case id.Scheme == "sasl" && u.byName[id.ID] != old.byName[id.ID],
			id.Scheme == tree.Super && u.super != old.super,
			id.Scheme == "digest" && old.requires("digest") && old.isUser(id) && !u.isUser(id):
			return false
		}
	}
	return true
}
