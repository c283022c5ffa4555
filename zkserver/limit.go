package zkserver

import (
	"sync/atomic"
	"time"
)

// A Limit names a limit that keeps clients from harming each other, in Stats and in the log.
type Limit string

// The limits, and what happens when a client reaches one.
const (
	LimitConnections   Limit = "connections"              // in total: the new one is closed at once
	LimitFiles         Limit = "open_files"               // of this process or system: new connections wait; each failed accept counts
	LimitNewcomers     Limit = "connections_before_login" // without a session yet, or a required login: the oldest is closed
	LimitPerAddress    Limit = "connections_per_address"  // the new one is closed at once
	LimitConnectRate   Limit = "connect_rate"             // new ones per second and address: closed at once
	LimitHandshake     Limit = "handshake_time"           // the connection is closed
	LimitFrame         Limit = "frame_bytes"              // the connection is closed
	LimitOutstanding   Limit = "outstanding"              // no request is read until one is answered
	LimitUnread        Limit = "unread_bytes"             // answers that a client does not read: the connection is closed
	LimitStalled       Limit = "unread_time"              // the client has read nothing for too long: the connection is closed
	LimitWatches       Limit = "watches"                  // in total: -125 QuotaExceeded, no watch is left
	LimitConnWatches   Limit = "watches_per_connection"   // -125 QuotaExceeded, no watch is left
	LimitNotifications Limit = "notifications"            // a write has more than some 130,000 to send: the connections of the other watchers are closed
	LimitMulti         Limit = "multi_ops"                // operations, or their work: -8 BadArguments
	LimitPath          Limit = "path_bytes"               // -8 BadArguments
	LimitChildren      Limit = "children_bytes"           // -125 QuotaExceeded to the create
	LimitEphemerals    Limit = "ephemerals_per_session"   // -125 QuotaExceeded to the create
	LimitACL           Limit = "acl"                      // an ACL of more than 64 entries or 8 KiB: -114 InvalidACL to the create or setACL
	LimitIdentities    Limit = "identities"               // more than 64 identities, 1 KiB in one or 64 KiB in all: -115 AuthFailed, the connection is closed
	LimitGuesses       Limit = "password_guesses"         // a login too early after wrong ones: the connection is closed
	LimitBuffers       Limit = "buffer_bytes"             // of all requests that are read or wait: none is read until there is room
	LimitData          Limit = "data_bytes"               // of all nodes: -125 QuotaExceeded to the create or set
	LimitQuota         Limit = "quota"                    // a hard limit of a subtree, with EnforceQuota: -125 QuotaExceeded to the create or set
	LimitSoftQuota     Limit = "soft_quota"               // any other limit of a subtree: only counted and logged
	LimitLargeAnswers  Limit = "large_answers"            // sent nevertheless, but most clients will not take them
)

var allLimits = [...]Limit{
	LimitFiles,
	LimitConnections, LimitNewcomers, LimitPerAddress, LimitConnectRate, LimitHandshake, LimitFrame, LimitBuffers, LimitData, LimitOutstanding, LimitUnread, LimitStalled,
	LimitWatches, LimitConnWatches, LimitNotifications, LimitMulti, LimitPath, LimitChildren, LimitEphemerals, LimitACL, LimitIdentities, LimitGuesses, LimitQuota, LimitSoftQuota, LimitLargeAnswers,
}

// refusals counts how often clients met a limit.
type refusals struct {
	count  atomic.Int64
	logged atomic.Int64 // time of the last log line, in nanoseconds from Server.opened; 0 is never
	said   atomic.Int64 // count at that time
}

// logInterval is the least time between two log lines about one limit, so that a client that floods
// the server does not flood the log.
const logInterval = 10 * time.Second

// refused counts that a client has met a limit, and logs it at intervals. Any goroutine may call it.
func (s *Server) refused(l Limit, args ...any) {
	r := s.counters.of(l)
	count := r.count.Add(1)
	now, last := 1+int64(time.Since(s.opened)), r.logged.Load()
	if last != 0 && now-last < int64(logInterval) || !r.logged.CompareAndSwap(last, now) {
		return
	}
	args = append([]any{"limit", string(l), "times", count - r.said.Swap(count)}, args...)
	s.cfg.Logger.Warn("zkserver: client met a limit", args...)
}
