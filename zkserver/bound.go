package zkserver

import (
	"context"
	"net"
	"sync"

	"holdfast/internal/proc"
)

// A session can belong to processes of this machine. Its client names them when it connects over a Unix socket or over
// memory, and again when they change (rebind). The names count if the first of them is the client: on a socket, the kernel
// says so (proc.Group.Confirm).
//
// When such a session has no connection and all its processes have ended, it ends at once. While one of them lives, or if
// the server cannot know, the session has its timeout. So a client loses nothing if it is stopped, has lost its connection
// or executes another program. Nor do clients behind a relay that dies: the kernel does not confirm them, since the relay
// is at the other end of their sockets.
//
// A command under a lock is the reason for several processes: the client is holdfast run, and the other process is the
// watchdog that ends the command (supervise.Terms.Guard). If holdfast run is killed, the session lives until the watchdog
// has ended the command. So the next holder does not start beside it.
//
// The end of a connection alone says nothing: the server asks the kernel. It does not keep a descriptor for each
// connection, but opens one when the connection has ended. The start times tell a process from a later one with its id.
// Sessions and their processes are in the store, so that the next server continues.

// maxDeathWatches is the most processes whose end the server waits for at a time, each with a descriptor. More of them wait
// for their turn.
const maxDeathWatches = 256

// deathWatches are the goroutines that wait for the end of processes.
type deathWatches struct {
	life  context.Context // ends with the server
	end   context.CancelFunc
	turns chan struct{}
	all   sync.WaitGroup
}

func newDeathWatches() *deathWatches {
	d := &deathWatches{turns: make(chan struct{}, maxDeathWatches)}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// turn waits until another process may be waited for.
func (d *deathWatches) turn(ctx context.Context) (done func(), err error) {
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A deathWatch waits for the end of a session's processes, in a goroutine. It is compared by its address.
type deathWatch struct{ stop context.CancelFunc }

// confirm returns the processes that the client of c has named, or nil if the kernel does not confirm them.
func (c *conn) confirm(named []byte) *proc.Group {
	if named == nil {
		return nil
	}
	g, err := proc.Decode(named)
	if err == nil {
		switch nc := c.nc.(type) {
		case *net.UnixConn:
			err = g.Confirm(nc)
		case interface{ Confirm(proc.Group) error }:
			err = nc.Confirm(g)
		default:
			return nil
		}
	}
	if err != nil {
		c.server.cfg.Logger.Debug("zkserver: a session does not belong to the process that its client names", "remote", c.nc.RemoteAddr(), "err", err)
		return nil
	}
	return &g
}

// watchGroup waits for the end of the session's processes. The session has lost its connection, or has just been loaded
// from the store.
func (s *Server) watchGroup(sess *session) {
	if sess.group == nil || s.deaths.life.Err() != nil {
		return
	}
	ctx, stop := context.WithCancel(s.deaths.life)
	g, w := *sess.group, &deathWatch{stop: stop}
	sess.watch = w
	s.deaths.all.Go(func() {
		defer stop()
		if err := g.Wait(ctx, s.deaths.turn); err == nil {
			s.queue.push(&request{kind: kindCall, call: func() { s.died(sess, w) }})
		} else if ctx.Err() == nil {
			s.cfg.Logger.Debug("zkserver: the end of a session's process cannot be seen; its timeout ends it", "session", hexID(sess.id), "err", err)
		}
	})
}

// died ends a session whose processes have ended, unless it has a client again or has ended.
func (s *Server) died(sess *session, w *deathWatch) {
	if sess.watch != w {
		return
	}
	if s.batchFull() || s.tooMuchToTell() {
		s.later(func() { s.died(sess, w) })
		return
	}
	s.cfg.Logger.Info("zkserver: session ended: its process has ended", "session", hexID(sess.id), "pid", sess.group.IDs[0].PID)
	s.counters.died.Add(1)
	s.endSession(sess, func() {})
}

// endWatches stops all waiting, when the server stops.
func (s *Server) endWatches() {
	s.owning.Lock() // a reader may be serving its client inline, and be in watchGroup: all.Go must not follow all.Wait
	s.deaths.end()
	s.owning.Unlock()
	s.deaths.all.Wait()
}
