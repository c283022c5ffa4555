package chaos_test

import (
	"strings"
	"testing"

	"holdfast/zkproto"
)

// smallHistory returns a correct history: a writes and ends its session, b watches.
func smallHistory() (h *zxidHistory, a, b *wire) {
	event := func(e zkproto.EventType) []zkproto.WatcherEvent {
		return []zkproto.WatcherEvent{{Type: e, State: zkproto.StateSyncConnected, Path: "/t/n"}}
	}
	stat := func(mzxid int64, version int32) zkproto.Stat {
		return zkproto.Stat{Czxid: 2, Mzxid: mzxid, Pzxid: 2, Version: version, EphemeralOwner: 1, DataLength: 1}
	}
	written := func(zxid int64, m asked, path string) answered { return answered{asked: m, zxid: zxid, path: path} }
	set := func(version int32) asked {
		return asked{op: zkproto.OpSetData, write: zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/t/n", Data: []byte("y"), Version: version}}
	}
	get := reads(zkproto.OpGetData, "/t/n")
	get.watch = true
	a, b = &wire{session: 1}, &wire{session: 2}
	a.replies = []answered{
		written(1, creates("/t", zkproto.FlagPersistent), "/t"),
		written(2, creates("/t/n", zkproto.FlagEphemeral), "/t/n"),
		{asked: set(0), zxid: 3, stat: stat(3, 1)},
		{asked: set(0), zxid: 4, code: zkproto.CodeBadVersion},
		written(5, creates("/t/q-", zkproto.FlagPersistentSequential), "/t/q-0000000001"),
		{asked: asked{op: zkproto.OpCloseSession}, zxid: 6},
	}
	b.replies = []answered{
		{asked: get, zxid: 2, data: "x", stat: stat(2, 0)},
		{asked: get, zxid: 3, events: event(zkproto.EventNodeDataChanged), data: "y", stat: stat(3, 1)},
		{asked: reads(zkproto.OpGetChildren2, "/t"), zxid: 6, events: event(zkproto.EventNodeDeleted), names: []string{"q-0000000001"},
			stat: zkproto.Stat{Czxid: 1, Mzxid: 1, Pzxid: 6, Cversion: 3, DataLength: 1, NumChildren: 1}},
	}
	return &zxidHistory{clients: [][]*wire{{a}, {b}}}, a, b
}

func TestZxidReplayFindsWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name, want string // want is part of the violation; "" for none
		change     func(h *zxidHistory, a, b *wire)
	}{
		{"nothing", "", func(h *zxidHistory, a, b *wire) {}},
		{"a read behind its zxid", "data of /t/n", func(h *zxidHistory, a, b *wire) { b.replies[1].data = "x" }},
		{"a version that is not counted", "stat of /t/n", func(h *zxidHistory, a, b *wire) { a.replies[2].stat.Version = 0 }},
		{"a wrong cversion", "stat of /t", func(h *zxidHistory, a, b *wire) { b.replies[2].stat.Cversion = 2 }},
		{"a wrong pzxid", "stat of /t", func(h *zxidHistory, a, b *wire) { b.replies[2].stat.Pzxid = 5 }},
		{"a transaction of two times", "at 7 ms", func(h *zxidHistory, a, b *wire) { b.replies[1].stat.Ctime = 7 }},
		{"a number that was there before", "create /t/q-", func(h *zxidHistory, a, b *wire) { a.replies[4].path = "/t/q-0000000000" }},
		{"a refusal without a reason", "set /t/n", func(h *zxidHistory, a, b *wire) { a.replies[3].code = zkproto.CodeNoNode }},
		{"a success against reason", "set /t/n", func(h *zxidHistory, a, b *wire) { a.replies[3].code = zkproto.CodeOK }},
		{"a node that outlives its session", "children of /t", func(h *zxidHistory, a, b *wire) {
			b.replies[2].names = []string{"n", "q-0000000001"}
		}},
		{"two writes with one zxid", "two writes", func(h *zxidHistory, a, b *wire) {
			b.replies = append(b.replies[:2:2], answered{asked: creates("/t/n/x", 0), zxid: 5, code: zkproto.CodeNoChildrenForEphemerals})
		}},
		{"a zxid that goes back", "follows 0x6", func(h *zxidHistory, a, b *wire) {
			b.replies = append(b.replies, answered{asked: reads(zkproto.OpSync, "/t"), zxid: 5})
		}},
		{"an answer from the past", "from before 0x7", func(h *zxidHistory, a, b *wire) { b.replies[2].floor = 7 }},
		{"an answer after the end", "after the end", func(h *zxidHistory, a, b *wire) {
			a.replies = append(a.replies, answered{asked: reads(zkproto.OpSync, "/t"), zxid: 6})
		}},
		{"an event that is missing", "has not come", func(h *zxidHistory, a, b *wire) { b.replies[1].events = nil }},
		{"an event behind newer data", "has not come", func(h *zxidHistory, a, b *wire) {
			b.tail, b.replies[2].events = b.replies[2].events, nil
		}},
		{"an event before it has happened", "nothing has happened yet", func(h *zxidHistory, a, b *wire) {
			b.replies[0].events, b.replies[1].events = b.replies[1].events, nil
		}},
		{"an event twice", "want NodeDeleted", func(h *zxidHistory, a, b *wire) {
			b.replies[2].events = append(b.replies[1].events[:1:1], b.replies[2].events...)
		}},
		{"an event of no watch", "nothing was watched", func(h *zxidHistory, a, b *wire) { b.tail = b.replies[2].events }},
		{"a create that was found and could not be", "in spite of", func(h *zxidHistory, a, b *wire) {
			h.found = []found{{zxid: 7, session: 2, write: creates("/t/none/x", 0).write}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, a, b := smallHistory()
			tt.change(h, a, b)
			bad := strings.Join(replayZxids(h).bad, "\n")
			if tt.want == "" && bad != "" || !strings.Contains(bad, tt.want) {
				t.Errorf("got %q; want %q", bad, tt.want)
			}
		})
	}
}
