package zkserver

import (
	"context"

	"holdfast/zkserver/internal/tree"
)

// SetUsers replaces the users, the superuser's digest and the required authentication of
// Config by those of cfg; its other fields do not matter. It closes the connections of users
// that are gone or have another password: their clients connect again, and have to
// authenticate anew. Their sessions live on until they time out.
//
// It returns an error and changes nothing if cfg is not valid. If ctx ends first, the error
// is its cause, and the change may happen later. SetUsers may be called at any time.
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

// knows reports whether the identities that old gave still stand.
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
