package locks

import (
	"testing"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// A server removes the queue of a semaphore that nobody waits for after a while, since it is a container. The permits
// are still held, in every view.
func TestASemaphoreWithoutItsTurnstile(t *testing.T) {
	for _, m := range makings(t) {
		turnstile := map[string]string{"semaphore": "/locks", "slots": "/slot-queue"}[m.kind]
		if turnstile == "" || m.layout == "kazoo" { // kazoo's is no container
			continue
		}
		t.Run(m.kind, func(t *testing.T) {
			srv := zktest.NewServer()
			t.Cleanup(srv.Close)
			admin := srv.Client()
			_, err := m.lock(srv.Client(), holdfast.WithOwner("ada")).Lock(t.Context())
			must(t, err)
			must(t, admin.Delete(t.Context(), m.path+turnstile, zk.AnyVersion))
			wantEverywhere(t, admin, m, Held, 0)
			if all, err := holdfast.List(t.Context(), admin, m.path); err != nil || len(all) != 1 || !all[0].Held {
				t.Errorf("List: %+v, %v; want one holder", all, err)
			}
		})
	}
}
