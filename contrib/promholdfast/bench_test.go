package promholdfast

import (
	"testing"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// BenchmarkLockUnlock compares lock and unlock, on a server in memory, without metrics and with them.
func BenchmarkLockUnlock(b *testing.B) {
	for _, metrics := range []string{"without", "with"} {
		b.Run(metrics, func(b *testing.B) {
			srv := zktest.NewServer()
			defer srv.Close()
			cfg := srv.Config()
			var opts []holdfast.Option
			if metrics == "with" {
				col, err := New("/jobs/{*}")
				if err != nil {
					b.Fatal(err)
				}
				cfg.Trace = col.Trace()
				opts = append(opts, holdfast.WithObserver(col.Observer()))
			}
			c, err := zk.Dial(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			m := holdfast.NewMutex(c, "/jobs/nightly", opts...)
			for b.Loop() {
				h, err := m.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Unlock(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
