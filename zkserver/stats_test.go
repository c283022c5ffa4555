package zkserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

func TestStatsCount(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		base := s.Stats()
		if base.Znodes != 4 || base.DataBytes != int64(len("/"+"/zookeeper"+"/zookeeper/quota"+"/zookeeper/config")) {
			t.Errorf("fresh: %+v", base)
		}
		c, gone := dial(), dial()
		c.connect(10*time.Second, nil)
		gone.connect(5*time.Second, nil)
		dial() // a connection without a session
		c.create("/a", zkproto.FlagPersistent)
		c.create("/a/e", zkproto.FlagEphemeral)
		gone.create("/a/gone", zkproto.FlagEphemeral)
		c.exists("/a", true)
		c.exists("/a/gone", true)
		c.exists("/a/gone", true) // the same watch
		time.Sleep(time.Second)
		synctest.Wait()
		st := s.Stats()
		want := Stats{
			Uptime: time.Second, LastZxid: base.LastZxid + 5, Connections: 3, ConnectionsAccepted: 3, ConnectionsMost: base.ConnectionsMost, Refused: st.Refused,
			Sessions: 2, SessionsCreated: 2, Znodes: 7, Ephemerals: 2, Watches: 2,
			DataBytes:        base.DataBytes + int64(len("/a"+"x"+"/a/e"+"x"+"/a/gone"+"x")),
			RequestsReceived: 8, RequestsAnswered: 8, RequestsCommitted: 5,
			BytesReceived: st.BytesReceived, BytesSent: st.BytesSent, Commit: st.Commit, Latency: st.Latency,
		}
		assertStats(t, st, want)
		if st.BytesReceived < 8*12 || st.BytesSent < 8*20 || st.Commit.Count != 5 || st.Latency.Count != 8 || st.Commit.Buckets[0] != 5 {
			t.Errorf("bytes %d, %d; commits %+v; latency %+v", st.BytesReceived, st.BytesSent, st.Commit, st.Latency)
		}
		gone.nc.Close()
		for range 3 {
			time.Sleep(3 * time.Second)
			c.send(zkproto.OpPing, nil)
			for c.read().Xid != zkproto.XidPing {
			}
		}
		synctest.Wait()
		if st := s.Stats(); st.SessionsExpired != 1 || st.Sessions != 1 || st.Ephemerals != 1 || st.Watches != 1 || st.Notifications != 1 || st.Connections != 1 {
			t.Errorf("after an expiry: %+v", st)
		}
	})
}

func assertStats(t *testing.T, got, want Stats) {
	t.Helper()
	got.Refused, got.Commit.Buckets, got.Latency.Buckets = nil, nil, nil
	want.Refused, want.Commit.Buckets, want.Latency.Buckets = nil, nil, nil
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

func TestStatsDoNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowStore{store.NewMemory(), make(chan struct{}, 100)}
		s := startOn(t, disk, Config{})
		defer s.Close()
		defer close(disk.ready)
		disk.ready <- struct{}{}
		c := pipe(t, s)
		c.connect(10*time.Second, nil)
		c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/a", ACL: openACL})
		c.send(zkproto.OpPing, nil)
		time.Sleep(time.Second)
		if st := s.Stats(); st.RequestsReceived != 3 || st.RequestsAnswered != 1 || st.Outstanding != 2 || st.Commit.Count != 1 || st.Znodes != 5 {
			t.Errorf("while the disk hangs: %+v", st)
		}
		disk.ready <- struct{}{}
		c.read()
		c.read()
		if st := s.Stats(); st.Outstanding != 0 || st.Commit.Sum != time.Second || st.Latency.Sum != 2*time.Second {
			t.Errorf("afterwards: %+v", st)
		}
	})
}

func TestClientsThatMeetALimitAreCountedAndLoggedNowAndThen(t *testing.T) {
	var log logRecorder
	inBubble(t, Config{Logger: slog.New(&log), Limits: Limits{Connections: 50}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		for range 20 {
			c := dial()
			c.connect(10*time.Second, nil)
			c.nc.Write([]byte(frame(zkproto.MaxFrame+1, "x")))
			c.closed()
		}
		if n := s.Stats().Refused[LimitFrame]; n != 20 || log.count() != 1 {
			t.Errorf("%d failures counted, %d lines in the log; want 20 and 1", n, log.count())
		}
		dial() // it never sends a handshake
		time.Sleep(logInterval + time.Second)
		synctest.Wait()
		c := dial()
		c.connect(10*time.Second, nil)
		c.nc.Write([]byte(frame(zkproto.MaxFrame+1, "x")))
		c.closed()
		if n := s.Stats().Refused[LimitHandshake]; n != 1 {
			t.Errorf("%d connections met the limit of the handshake; want 1", n)
		}
		if log.count() != 3 {
			t.Errorf("%d lines in the log: %q; want 3", log.count(), log.lines)
		}
	})
}

// A logRecorder keeps warnings.
type logRecorder struct {
	mu    sync.Mutex
	lines []string
}

func (l *logRecorder) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logRecorder) WithGroup(string) slog.Handler      { return l }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logRecorder) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// A start reads the journals and the snapshot, so Stats reports their sizes.
func TestStatsTellTheSizeOfTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	before := s.Stats()
	if before.JournalBytes <= 0 || before.SnapshotBytes != 0 {
		t.Errorf("a fresh store: %d and %d bytes", before.JournalBytes, before.SnapshotBytes)
	}
	c := pipe(t, s)
	c.connect(10*time.Second, nil)
	c.create("/a", 0)
	data := make([]byte, 500<<10)
	if a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: data, Version: -1}); a.Err != zkproto.CodeOK {
		t.Fatal(a.Err)
	}
	if grown := s.Stats().JournalBytes - before.JournalBytes; grown < int64(len(data)) || grown > int64(len(data))+4096 {
		t.Errorf("a write of %d bytes: the journals have grown by %d", len(data), grown)
	}
	st := s.Stats()
	for st.SnapshotBytes == 0 { // ends when a snapshot has been made
		c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: data, Version: -1})
		was := st
		if st = s.Stats(); st.SnapshotBytes == 0 && st.JournalBytes <= was.JournalBytes {
			t.Fatalf("a write, but no snapshot: journals of %d bytes, then %d", was.JournalBytes, st.JournalBytes)
		}
	}
	if st.SnapshotBytes < int64(len(data)) || st.SnapshotBytes > int64(len(data))+4096 {
		t.Errorf("the snapshot has %d bytes; want slightly more than %d", st.SnapshotBytes, len(data))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openDir(t, dir).Stats()
	if again.SnapshotBytes < int64(len(data)) || again.JournalBytes <= 0 {
		t.Errorf("after a restart: %d and %d bytes", again.JournalBytes, again.SnapshotBytes)
	}
}

func openDir(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
