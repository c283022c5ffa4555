package zkserver

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// The process has no free file when the store needs its next ones. The server serves its clients nevertheless, and
// says why it makes no snapshot. When there are files again, it makes one, although nobody writes.
func TestAStoreThatCannotMakeAFileTriesAgain(t *testing.T) {
	for _, what := range []string{".journal.tmp", ".snapshot.tmp"} {
		for _, failure := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
			t.Run(fmt.Sprint(what, " ", failure), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := crashfs.New(nil)
					var short atomic.Bool
					fs.Fail = func(c crashfs.Call) (int, error) {
						if short.Load() && c.Op == "create" && strings.HasSuffix(c.Name, what) {
							return 0, failure
						}
						return 0, nil
					}
					s := startOn(t, store.OpenOn(fs, small), Config{})
					defer s.Close()
					c := pipe(t, s)
					c.connect(40*time.Second, nil)
					short.Store(true)
					write := func() {
						t.Helper()
						for i := range 30 {
							c.create(fmt.Sprint("/n", i), zkproto.FlagPersistent)
							if a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: fmt.Sprint("/n", i), Data: make([]byte, 3000), Version: -1}); a.Err != zkproto.CodeOK {
								t.Fatal(a.Err)
							}
							c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: fmt.Sprint("/n", i), Version: -1})
						}
					}
					write()
					synctest.Wait()
					write()
					if err := ready(t, s); err == nil || !strings.Contains(err.Error(), failure.Error()) || !strings.Contains(err.Error(), crashfs.Dir+"/") {
						t.Errorf("ready: %v; want the file and %v", err, failure)
					}
					if st := s.Stats(); st.SnapshotBytes != 0 || st.JournalBytes < 20*small {
						t.Errorf("a snapshot of %d bytes, journals of %d", st.SnapshotBytes, st.JournalBytes)
					}
					short.Store(false)
					before := s.Stats().RequestsReceived
					time.Sleep(3 * time.Minute)
					if st := s.Stats(); st.SnapshotBytes == 0 || st.RequestsReceived != before {
						t.Errorf("a snapshot of %d bytes", st.SnapshotBytes)
					}
					if err := ready(t, s); err != nil {
						t.Errorf("ready: %v", err)
					}
					c = pipe(t, s)
					c.connect(40*time.Second, nil)
					for range 3 { // the journal that went on meanwhile
						c.create("/n", zkproto.FlagPersistent)
						synctest.Wait()
						c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/n", Version: -1})
					}
					if st := s.Stats(); st.JournalBytes > 2*small {
						t.Errorf("journals of %d bytes", st.JournalBytes)
					}
				})
			})
		}
	}
}
