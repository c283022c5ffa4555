package ui

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/waitgraph"
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
		graph := func(version uint64) *waitgraph.Blocking {
			g, _ := s.waits(at(version))
			return g
		}
		first := graph(1)
		if graph(2) != first || graph(3) != first {
			t.Error("a graph for each version")
		}
		time.Sleep(2 * graphEvery)
		select {
		case <-tab:
		default:
			t.Error("no mark")
		}
		if graph(3) == first {
			t.Error("still the old graph")
		}
		time.Sleep(2 * graphEvery)
		if len(tab) > 0 {
			t.Error("a mark although the graph is new")
		}
	})
}
