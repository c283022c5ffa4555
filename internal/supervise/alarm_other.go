//go:build !linux

package supervise

import "time"

var began = time.Now()

// clock returns a time. Only differences between two values mean anything.
func clock() time.Duration { return time.Since(began) }

// An alarm rings after some time.
type alarm struct {
	C     <-chan time.Time
	timer *time.Timer
}

func newAlarm() (*alarm, error) {
	timer := time.NewTimer(time.Hour)
	return &alarm{C: timer.C, timer: timer}, nil
}

func (a *alarm) in(d time.Duration) { a.timer.Reset(d) }
func (a *alarm) stop()              { a.timer.Stop() }
func (a *alarm) close()             { a.timer.Stop() }
