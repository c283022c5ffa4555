package otelholdfast

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// BenchmarkLockUnlock compares lock and unlock, on a server in memory, without traces, with traces that are not
// sampled, and with sampled ones that nobody exports.
func BenchmarkLockUnlock(b *testing.B) {
	for _, with := range []struct {
		name    string
		sampler sdk.Sampler
	}{{"without", nil}, {"unsampled", sdk.NeverSample()}, {"sampled", sdk.AlwaysSample()}} {
		b.Run(with.name, func(b *testing.B) {
			srv := zktest.NewServer()
			defer srv.Close()
			cfg, ctx := srv.Config(), b.Context()
			var opts []holdfast.Option
			if with.sampler != nil {
				provider := sdk.NewTracerProvider(sdk.WithSampler(with.sampler))
				traces := New(WithTracerProvider(provider))
				cfg.Trace = traces.Trace()
				opts = append(opts, holdfast.WithObserver(traces.Observer()))
				ctx, _ = provider.Tracer("program").Start(ctx, "caller")
			}
			c, err := zk.Dial(ctx, cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			m := holdfast.NewMutex(c, "/jobs/nightly", opts...)
			for b.Loop() {
				h, err := m.Lock(ctx)
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
