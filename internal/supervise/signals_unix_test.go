//go:build unix

package supervise

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// timeout(1) sends a signal twice at once. That is one request to stop.
func TestRequestToStopThatIsSentTwiceIsOne(t *testing.T) {
	const term, interrupt, hup, usr1 = syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1
	type sent struct {
		sig   os.Signal
		after time.Duration
	}
	for _, tt := range []struct {
		name string
		sent []sent
		want []os.Signal
	}{
		{"at once", []sent{{term, 0}, {term, 0}}, []os.Signal{term}},
		{"again and again", []sent{{term, 0}, {term, atOnce(term) / 2}, {term, atOnce(term) / 2}, {term, atOnce(term) / 2}}, []os.Signal{term, term}},
		{"with a CONT in between", []sent{{term, 0}, {syscall.SIGCONT, 0}, {term, 0}, {syscall.SIGCONT, 0}}, []os.Signal{term, syscall.SIGCONT, syscall.SIGCONT}},
		{"two requests", []sent{{interrupt, 0}, {interrupt, atOnce(interrupt)}}, []os.Signal{interrupt, interrupt}},
		{"others", []sent{{interrupt, 0}, {term, 0}}, []os.Signal{interrupt, term}},
		{"no requests to stop", []sent{{hup, 0}, {hup, 0}, {usr1, 0}, {usr1, 0}}, []os.Signal{hup, hup, usr1, usr1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, out, over := make(chan os.Signal), make(chan os.Signal, 64), make(chan struct{})
				go relay(in, out, over)
				for _, s := range tt.sent {
					time.Sleep(s.after)
					in <- s.sig
				}
				synctest.Wait()
				close(over)
				synctest.Wait()
				close(out)
				var got []os.Signal
				for sig := range out {
					got = append(got, sig)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got %v; want %v", got, tt.want)
				}
			})
		})
	}
}
