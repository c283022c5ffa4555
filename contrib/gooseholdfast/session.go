package gooseholdfast

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3/database"

	"holdfast"
)

// A sessionLock is the statements of a lock that a database keeps until its session has released it, or is over.
// The session of a program that was killed is over when its statement has ended.
type sessionLock struct {
	try    string // whether the lock was acquired
	unlock string // whether the lock was held
	who    string // describes the session that holds it
}

// sessionLocks are the databases that have one. PostgreSQL's is that of goose's own NewPostgresSessionLocker, so programs
// without holdfast are kept out, too.
var sessionLocks = map[database.Dialect]*sessionLock{
	database.DialectPostgres: {
		try:    `SELECT pg_try_advisory_lock(4097083626)`,
		unlock: `SELECT pg_advisory_unlock(4097083626)`,
		who: `SELECT concat('process ', pid, ', ', state, ': ', left(query, 200)) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND granted AND classid = 0 AND objid = 4097083626 AND objsubid = 1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
	},
	// The names of MySQL's locks are those of the whole server, and have at most 64 characters.
	database.DialectMySQL: {
		try:    `SELECT COALESCE(GET_LOCK(CONCAT('goose ', SHA1(COALESCE(DATABASE(), ''))), 0), 0)`,
		unlock: `SELECT COALESCE(RELEASE_LOCK(CONCAT('goose ', SHA1(COALESCE(DATABASE(), '')))), 0)`,
		who: `SELECT CONCAT('connection ', id, ', ', command, ': ', LEFT(COALESCE(info, ''), 200)) FROM information_schema.processlist
			WHERE id = IS_USED_LOCK(CONCAT('goose ', SHA1(COALESCE(DATABASE(), ''))))`,
	},
}

const (
	firstPause, longestPause = 50 * time.Millisecond, time.Second // between two tries
	answerTime               = 10 * time.Second                   // for the answer to a release
)

// wait acquires the lock for the session of conn, until ctx ends or h is lost. It asks again and again. A
// statement that waits in PostgreSQL would keep CREATE INDEX CONCURRENTLY of the other session waiting, for ever.
func (s *sessionLock) wait(ctx context.Context, conn *sql.Conn, h *holdfast.Hold, logger *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })()
	begun, session := time.Now(), ""
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var locked bool
		err := conn.QueryRowContext(ctx, s.try).Scan(&locked)
		if err != nil {
			discard(conn) // it may have acquired the lock
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("gooseholdfast: acquire the lock of the database: %w; if it has no such lock, give gooseholdfast.New goose.DialectCustom", err)
		}
		if locked {
			return nil
		}
		if session == "" {
			if conn.QueryRowContext(ctx, s.who).Scan(&session) != nil {
				session = "unknown"
			}
			logger.Warn("another session holds the lock of the database, for example that of a program that was killed: waiting for the end of its statement",
				"lock", h.Path(), "session", session)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("gooseholdfast: waited %v for the lock of the database (session: %s): %w", time.Since(begun).Round(time.Millisecond), session, context.Cause(ctx))
		}
	}
}

// errOtherSession means that a release reached a session without the lock.
var errOtherSession = errors.New("gooseholdfast: the session does not hold the lock of the database: if a pooler in transaction mode is between, give gooseholdfast.New goose.DialectCustom")

// release releases the lock. If the connection is broken, the session ends with the statement that it runs, and
// the lock with the session.
func (s *sessionLock) release(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	var held bool
	err := conn.QueryRowContext(ctx, s.unlock).Scan(&held)
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return nil
	case err != nil:
		discard(conn)
		return fmt.Errorf("gooseholdfast: release the lock of the database: %w", err)
	case !held:
		return errOtherSession
	}
	return nil
}

// discard closes the connection, and does not leave it to others in the pool.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }
