package zkserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// mostWritten is the most that a write takes in the store besides the bytes of its request.
const mostWritten = 4 << 10

// A create or a delete below a node writes neither the data nor the ACL of that node, and setACL does not write the data.
func TestAWriteWritesWhatItChanges(t *testing.T) {
	s, l := serve(t, Config{Dir: t.TempDir(), QuotaWritable: true})
	defer s.Close()
	c := dialRaw(t, l)
	c.connect(40*time.Second, nil)
	var acl []zkproto.ACL
	for i := range 60 { // nearly 8 KiB
		acl = append(acl, zkproto.ACL{Perms: zkproto.PermAll, Scheme: "digest", ID: fmt.Sprintf("%0110d:x", i)})
	}
	acl = append(acl, openACL...)
	big := make([]byte, 1_000_000)
	long := strings.Repeat("/"+strings.Repeat("d", 499), 8) // a path of 4,000 bytes
	do := func(op zkproto.Op, m message) (frame, written int64) {
		t.Helper()
		before := s.Stats().JournalBytes
		a := c.call(op, m)
		if a.Err != zkproto.CodeOK {
			t.Fatalf("%v: %v", op, a.Err)
		}
		return int64(len(frameOf(op, m))), s.Stats().JournalBytes - before
	}
	create := func(path string, data []byte, acl []zkproto.ACL, flags int32) (zkproto.Op, message) {
		return zkproto.OpCreate, &zkproto.CreateRequest{Path: path, Data: data, ACL: acl, Flags: flags}
	}
	for i := 500; i < len(long); i += 500 {
		do(create(long[:i], nil, openACL, 0))
	}
	for _, parent := range []string{"/big", long} {
		do(create(parent, big, acl, 0))
	}
	do(create("/zookeeper/quota/big", nil, openACL, 0))
	do(create("/zookeeper/quota/big/zookeeper_limits", []byte("count=1000000,bytes=1000000000"), acl, 0))
	do(create("/zookeeper/quota/big/zookeeper_stats", []byte("count=1,bytes=1"), acl, 0))
	for _, parent := range []string{"/big", long} {
		for _, tt := range []struct {
			name string
			op   zkproto.Op
			m    message
		}{
			{"create", zkproto.OpCreate, &zkproto.CreateRequest{Path: parent + "/a", ACL: openACL}},
			{"create of an ephemeral sequential node", zkproto.OpCreate, &zkproto.CreateRequest{Path: parent + "/e-", ACL: openACL, Flags: zkproto.FlagEphemeralSequential}},
			{"create with a long ACL", zkproto.OpCreate2, &zkproto.CreateRequest{Path: parent + "/b", ACL: acl}},
			{"setACL of the child", zkproto.OpSetACL, &zkproto.SetACLRequest{Path: parent + "/a", ACL: acl, Version: -1}},
			{"delete", zkproto.OpDelete, &zkproto.DeleteRequest{Path: parent + "/a", Version: -1}},
			{"delete of a node with a long ACL", zkproto.OpDelete, &zkproto.DeleteRequest{Path: parent + "/b", Version: -1}},
			{"setACL", zkproto.OpSetACL, &zkproto.SetACLRequest{Path: parent, ACL: acl[1:], Version: -1}},
			{"transaction", zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
				{Op: zkproto.OpCreate, Path: parent + "/t", ACL: openACL}, {Op: zkproto.OpDelete, Path: parent + "/t", Version: -1}}}},
		} {
			frame, written := do(tt.op, tt.m)
			t.Logf("%-40s below a path of %4d bytes: a request of %5d bytes writes %d", tt.name, len(parent), frame, written)
			if written > frame+mostWritten {
				t.Errorf("%s below a path of %d bytes: a request of %d bytes writes %d", tt.name, len(parent), frame, written)
			}
		}
	}
}

// A batch is full while the disk hangs. Further requests, small ones too, and sessions that end wait for the next one.
func TestAFullBatchTakesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &heldStore{Memory: store.NewMemory(), verdicts: make(chan error, 100)}
		s := startOn(t, disk, Config{})
		defer s.Close()
		for range 20 {
			disk.verdicts <- nil
		}
		c := pipe(t, s)
		c.connect(40*time.Second, nil)
		synctest.Wait()
		for len(disk.verdicts) > 0 {
			<-disk.verdicts
		}
		c.send(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/", ACL: openACL, Version: -1}) // the disk hangs
		synctest.Wait()
		fill := func() (n int) {
			onOwner(s, func() {
				for ; !s.batchFull(); n++ {
					if _, _, code := s.owner.tree.Create(s.nextTxn(1), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprint("/", s.owner.zxid), Data: make([]byte, 1_000_000), ACL: openACL}); code != zkproto.CodeOK {
						t.Error(code)
					}
				}
			})
			return n
		}
		if n := fill(); n < fullBatch/1_100_000 || n > fullBatch/1_000_000+1 {
			t.Errorf("%d nodes of a megabyte fill a batch", n)
		}
		other := pipe(t, s)
		other.sendFrame(&zkproto.ConnectRequest{Timeout: 4000, Passwd: make([]byte, 16), HasReadOnly: true})
		c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/small", ACL: openACL})
		synctest.Wait()
		onOwner(s, func() {
			if _, code := s.owner.tree.Exists("/small"); code != zkproto.CodeNoNode || len(s.owner.sessions) != 1 {
				t.Errorf("a small request: %v; %d sessions", code, len(s.owner.sessions))
			}
		})
		close(disk.verdicts)
		for range 2 {
			if a := c.read(); a.Err != zkproto.CodeOK {
				t.Error(a.Err)
			}
		}
		other.readFrame()
	})
}
