package ui

import (
	"testing"
	"testing/synctest"
	"time"
)

// If the caller that makes a value panics, those that wait for it make one themselves.
func TestAPanicOfOneCallerIsNotThatOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[string]
		var panicked any
		go func() {
			defer func() { panicked = recover() }()
			s.get(1, 0, 0, func() (string, uint64) {
				time.Sleep(time.Second)
				panic("a template")
			})
		}()
		synctest.Wait()
		value, _, _ := s.get(1, 0, 0, func() (string, uint64) { return "made again", 1 })
		synctest.Wait()
		if value != "made again" || panicked != "a template" {
			t.Errorf("%q, panic %v", value, panicked)
		}
	})
}
