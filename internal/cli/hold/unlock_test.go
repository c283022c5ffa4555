package hold

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// The server that unlock --force reads from is behind: it does not show the detached lock yet, and perhaps shows the
// holder before. It has caught up when it answers a write.
func TestForcedUnlockAtAServerThatIsBehind(t *testing.T) {
	const path = "/locks/db"
	for name, before := range map[string]bool{"free": false, "held by a process": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Error(err)
					}
				}
				admin, reader := srv.Client(), srv.Client()
				claim, err := holdfast.NewDetached(admin, path, 0).Lock(t.Context())
				must(err)
				data, _, err := admin.Get(t.Context(), claim.Path)
				must(err)
				must(admin.Delete(t.Context(), claim.Path, zk.AnyVersion))
				old := path + "/_c_0-lock-0000000000"
				if before {
					_, _, err := admin.Create(t.Context(), old, nil, zk.Ephemeral)
					must(err)
				}
				var once atomic.Bool
				srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
					if once.CompareAndSwap(false, true) {
						if before {
							must(admin.Delete(context.Background(), old, zk.AnyVersion))
						}
						_, _, err := admin.Create(context.Background(), claim.Path, data, zk.Persistent)
						must(err)
					}
					return zktest.Pass
				})
				cmd := &cobra.Command{}
				cmd.SetErr(io.Discard)
				if err := unlockForced(t.Context(), new(conn.Flags), cmd, reader, "db", path, "", nil); err != nil {
					t.Errorf("the lock is held: %v", err)
				}
				if _, held, err := admin.Exists(t.Context(), claim.Path); held || err != nil {
					t.Errorf("held: %v, %v", held, err)
				}
			})
		})
	}
}
