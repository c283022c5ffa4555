package zkserver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zkproto"
)

// BenchmarkReads measures how many large nodes per second clients read from a server in its own
// process, with a number of requests in flight per client.
//
//	go test -run='^$' -bench=Reads -benchtime=2s ./zkserver
func BenchmarkReads(b *testing.B) {
	for _, tt := range []struct{ clients, inFlight, size int }{
		{1, 4, 500_000}, {1, 64, 100_000}, {4, 2, 500_000}, {16, 1, 100_000}, {16, 1, 60_000},
	} {
		b.Run(fmt.Sprintf("%d clients, %d of %d", tt.clients, tt.inFlight, tt.size), func(b *testing.B) {
			p := startProcess(b, Config{Dir: b.TempDir()})
			ctx, cancel := context.WithCancel(b.Context())
			var reads atomic.Int64
			var readers sync.WaitGroup
			defer readers.Wait()
			defer cancel()
			get := frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/mine"})
			for i := range tt.clients {
				c, err := join(ctx, p.addr)
				if err != nil {
					b.Fatal(err)
				}
				if i == 0 {
					c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/mine", Data: make([]byte, tt.size), ACL: openACL})
					if _, err := zkproto.ReadFrame(c, nil, 1<<20); err != nil {
						b.Fatal(err)
					}
				}
				for range tt.inFlight {
					c.Write(get)
				}
				readers.Go(func() {
					defer c.Close()
					var frame []byte
					for {
						var err error
						if frame, err = zkproto.ReadFrame(c, frame, 1<<20); err != nil {
							return // ctx has ended
						}
						if len(frame) < tt.size {
							b.Errorf("an answer of %d bytes", len(frame))
							return
						}
						reads.Add(1)
						c.Write(get)
					}
				})
			}
			b.ResetTimer()
			before, began := reads.Load(), time.Now()
			for b.Loop() {
				time.Sleep(10 * time.Millisecond) // the benchmark measures the readers
			}
			b.ReportMetric(float64(reads.Load()-before)/time.Since(began).Seconds(), "reads/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
