package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// Waiters that are to look again in the same second share an alarm. It rings no earlier than each has asked for, at most
// a second later, and nothing of it is left.
func TestAlarmsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm
		count := func() int {
			a.Lock()
			defer a.Unlock()
			return len(a.at)
		}
		began := time.Now()
		first := a.after(40 * time.Second)
		time.Sleep(300 * time.Millisecond)
		second, other := a.after(40*time.Second), a.after(50*time.Second)
		if first != second || count() != 2 {
			t.Errorf("%d alarms for two seconds", len(a.at))
		}
		for _, want := range []struct {
			rings <-chan struct{}
			least time.Duration
		}{{second, 40300 * time.Millisecond}, {other, 50300 * time.Millisecond}} {
			<-want.rings
			if took := time.Since(began); took < want.least || took > want.least+time.Second {
				t.Errorf("it rings after %v; want %v", took, want.least)
			}
		}
		synctest.Wait()
		if n := count(); n != 0 {
			t.Errorf("%d alarms are left", n)
		}
	})
}
