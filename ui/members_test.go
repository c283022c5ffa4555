package ui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"holdfast"
	"holdfast/ui"
)

type candidates struct{ *holdfast.Election }

func (e candidates) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return e.Campaign(ctx, []byte("http://two"))
}

func (e candidates) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return e.TryCampaign(ctx, []byte("http://two"))
}

// A candidate of an election does not wait, and nobody blocks it. The page of a lock needs no kind in its address.
func TestCandidatesDoNotWait(t *testing.T) {
	w := newWorld(t)
	c := w.clients
	_, err := holdfast.NewElection(c[0], space+"leader").Campaign(t.Context(), []byte("http://one"))
	w.must(err)
	w.wait(space+"leader", candidates{holdfast.NewElection(c[1], space+"leader")})
	w.take(holdfast.NewSemaphore(c[2], space+"pool", 3, holdfast.WithOwner("ann")).Locker(3))
	w.take(holdfast.NewSlots(c[2], space+"gpu", 4, holdfast.WithOwner("ann")).Locker(2, 3))
	_, base := w.open(ui.Config{Prefix: space})
	overview := w.get(base, http.StatusOK)
	for _, want := range []string{`Clients waiting`, `Root blockers`} {
		_, after, _ := strings.Cut(overview, `<span class="label">`+want+`</span><span class="value">`)
		if !strings.HasPrefix(after, "0<") {
			t.Errorf("%s: %.20s; want 0", want, after)
		}
	}
	page := w.get(base+"lock?path="+space+"gpu", http.StatusOK)
	for _, want := range []string{"<dt>Slot</dt><dd>0</dd>", "<dt>Slot</dt><dd>3</dd>", "permits 2/4"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of two slots has no %s", want)
		}
	}
	if list := w.get(base+"locks", http.StatusOK); strings.Count(list, `<span class="quiet">+`) != 0 {
		t.Error("the permits of one holder look like several holders")
	}
	page = w.get(base+"lock?path="+space+"pool", http.StatusOK)
	if !strings.Contains(page, "permits 3/3") || strings.Contains(page, "nobody holds it") {
		t.Error("the page of a semaphore without a kind in its address says that it is free")
	}
}
