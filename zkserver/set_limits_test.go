package zkserver

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
)

func TestSetLimitsAppliesToRequestsAndToNewConnections(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Connections: 2}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		set := func(l Limits) {
			t.Helper()
			if err := s.SetLimits(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		create := func(c *rawClient, path string, flags int32) zkproto.Code {
			return c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, ACL: openACL, Flags: flags}).Err
		}
		a, b := dial(), dial()
		a.connect(time.Minute, nil)
		b.connect(time.Minute, nil)
		dial().closed()
		set(Limits{Connections: 3})
		c := dial()
		c.connect(time.Minute, nil)
		dial().closed()
		set(Limits{Connections: 1})
		for _, old := range []*rawClient{a, b, c} { // no connection is closed
			old.exists("/", false)
		}
		dial().closed()

		long := "/" + strings.Repeat("x", 99)
		if code := create(a, long, 0); code != zkproto.CodeOK {
			t.Error(code)
		}
		if code := create(a, "/first", zkproto.FlagEphemeral); code != zkproto.CodeOK {
			t.Error(code)
		}
		set(Limits{PathBytes: 50, EphemeralsPerSession: 1, FrameBytes: 1000})
		if code := create(a, long+"/too-long", 0); code != zkproto.CodeBadArguments {
			t.Errorf("a path beyond the new limit: %v", code)
		}
		if code := create(a, "/second", zkproto.FlagEphemeral); code == zkproto.CodeOK {
			t.Error("an ephemeral node beyond the new limit was made")
		}
		if code := create(b, "/of-b", zkproto.FlagEphemeral); code != zkproto.CodeOK {
			t.Error(code)
		}
		b.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/of-b", Data: make([]byte, 2000), Version: -1})
		b.closed()
		set(Limits{})
		if code := create(a, "/second", zkproto.FlagEphemeral); code != zkproto.CodeOK {
			t.Errorf("the defaults again: %v", code)
		}
		s.Close()
		if err := s.SetLimits(t.Context(), Limits{}); !errors.Is(err, ErrServerClosed) {
			t.Errorf("a server that has stopped: %v", err)
		}
	})
}

func TestSetLimitsBeyondTheOpenFilesIsLogged(t *testing.T) {
	var log logRecorder
	s, err := Open(Config{Logger: slog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.mu.Lock()
	s.fileRoom = 100
	s.mu.Unlock()
	for _, test := range []struct{ connections, want int }{{100, 0}, {101, 1}} {
		before := log.count()
		if err := s.SetLimits(t.Context(), Limits{Connections: test.connections}); err != nil {
			t.Fatal(err)
		}
		if got := log.count() - before; got != test.want {
			t.Errorf("%d connections: %d warnings; want %d", test.connections, got, test.want)
		}
	}
}
