package ui

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"holdfast/internal/deed"
	"holdfast/internal/locks"
)

// lookEnd makes the plan to end a session. If it cannot, it answers.
func (s *acts) lookEnd(ctx context.Context, w http.ResponseWriter, r *http.Request, text string) (*deed.SessionPlan, bool) {
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil || id == 0 {
		s.access.refuse(w, r, http.StatusBadRequest, "the session is missing, or is no id such as 0x10000a3c0010002", "Nothing was done.")
		return nil, false
	}
	p, err := deed.LookSession(ctx, s.client, s.prefix, int64(id))
	if err != nil {
		s.failed(w, r, err, false)
		return nil, false
	}
	return p, true
}

// mostPlaces is how many places a session may have if it is to be ended from the page: the form has them all.
const mostPlaces = 1000

// seen returns the places of a session for the form: 8 bytes for each, whose last bit says that it is held.
func seen(places []deed.SessionPlace) string {
	var all []byte
	for _, p := range places {
		all = binary.BigEndian.AppendUint64(all, seenPlace(p, p.Held))
	}
	return base64.RawURLEncoding.EncodeToString(all)
}

func seenPlace(p deed.SessionPlace, held bool) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", p.Token, p.Path)
	if held {
		return h.Sum64() | 1
	}
	return h.Sum64() &^ 1
}

// unseen returns a place that the user has not seen: it is new, or is held and was not. It returns nil if there is none.
func unseen(places []deed.SessionPlace, form string) (*deed.SessionPlace, error) {
	all, err := base64.RawURLEncoding.DecodeString(form)
	if err != nil || len(all) == 0 || len(all)%8 != 0 {
		return nil, errors.New("the places that were seen are missing")
	}
	known := make(map[uint64]bool)
	for ; len(all) > 0; all = all[8:] {
		known[binary.BigEndian.Uint64(all)] = true
	}
	for i, p := range places {
		if !known[seenPlace(p, true)] && (p.Held || !known[seenPlace(p, false)]) {
			return &places[i], nil
		}
	}
	return nil, nil
}

// askEnd shows what a session will lose. It changes nothing. It reads all locks, so it is for those who may act.
func (s *acts) askEnd(w http.ResponseWriter, r *http.Request) {
	if why := s.cannot(r); why != "" {
		s.access.refuse(w, r, http.StatusForbidden, why, "The page of the sessions has what it holds, and for what it waits.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askPatience)
	defer cancel()
	p, ok := s.lookEnd(ctx, w, r, r.URL.Query().Get("session"))
	if !ok {
		return
	}
	id := locks.SessionText(p.Session)
	if len(p.Places) > mostPlaces {
		s.access.refuse(w, r, http.StatusUnprocessableEntity, fmt.Sprintf("session %s has %d places; the page ends those with up to %d", id, len(p.Places), mostPlaces), "Use holdfast sessions end "+id+". Nothing was done.")
		return
	}
	q := &actQuestion{
		Verb: "end", Does: "Its holders are told, but the next clients do not wait for them to stop. The session itself goes on.",
		Session: id, Seen: seen(p.Places), Action: "act/end", Back: "sessions",
	}
	for _, at := range p.Places {
		q.Places = append(q.Places, placeNow(at.Lock, at.Entry))
	}
	show(w, r, http.StatusOK, actPage{Title: "end session " + id, Ask: q})
}

// end takes all locks of a session away.
func (s *acts) end(w http.ResponseWriter, r *http.Request) {
	by, ok := s.may(w, r)
	if !ok {
		return
	}
	ctx, cancel := acting(r)
	defer cancel()
	p, ok := s.lookEnd(ctx, w, r, r.PostForm.Get("session"))
	if !ok {
		return
	}
	fresh, err := unseen(p.Places, r.PostForm.Get("seen"))
	switch {
	case err != nil:
		s.access.refuse(w, r, http.StatusBadRequest, err.Error(), "Begin at the page of the sessions. Nothing was done.")
		return
	case fresh != nil:
		at := placeNow(fresh.Lock, fresh.Entry)
		show(w, r, http.StatusConflict, actPage{
			Title: "The session has changed", Refused: "since the question, it has joined the queue of " + at.Lock + ", or acquired it", Hint: "Nothing was done. Look at the session again.", Now: &at,
		})
		return
	}
	taken, record, err := p.Do(ctx, s.client, by)
	s.logged(r, record, err)
	if err != nil {
		s.failed(w, r, err, true)
		return
	}
	id := s.access.flash(r, fmt.Sprintf("took %d of %d places from session %s.%s", taken, len(p.Places), locks.SessionText(p.Session), unaudited(record)))
	redirect(w, r, "/sessions?flash="+url.QueryEscape(id))
}
