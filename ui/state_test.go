package ui

import (
	"testing"
	"testing/synctest"
	"time"
)

// A page that shows the graph of an earlier version is told to read again when that graph is old, also if nothing else
// changes.
func TestAnOldGraphIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState(nil, "/")
		tab, leave, _ := s.hub.join()
		defer leave()
		<-tab
		at := func(version uint64) view { return view{snapshot: snapshot{version: version}, now: time.Now()} }
		first := s.waits(at(1))
		if s.waits(at(2)) != first || s.waits(at(3)) != first {
			t.Error("a graph for each version")
		}
		time.Sleep(2 * graphEvery)
		select {
		case <-tab:
		default:
			t.Error("no mark")
		}
		if s.waits(at(3)) == first {
			t.Error("still the old graph")
		}
		time.Sleep(2 * graphEvery)
		if len(tab) > 0 {
			t.Error("a mark although the graph is new")
		}
	})
}
