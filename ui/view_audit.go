package ui

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"holdfast/internal/deed"
	"holdfast/zk"
)

type auditBody struct {
	Items []auditItem
	Why   string // the audit cannot be read
}

type auditItem struct {
	deed.Entry
	Shown []auditPlace
	More  int
}

type auditPlace struct {
	deed.Place
	Name string
}

// An auditCache keeps the audit for two seconds, so that many tabs cost one read.
type auditCache struct {
	mu   sync.Mutex
	at   time.Time
	body auditBody
}

func (u *UI) audit(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Audit", u.command("history", u.cfg.Prefix)
	u.audits.mu.Lock()
	defer u.audits.mu.Unlock()
	if time.Since(u.audits.at) > 2*time.Second {
		// The read is for all tabs, so it goes on if this one is closed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), staleAfter)
		defer cancel()
		u.audits.body, u.audits.at = u.readAudit(ctx), time.Now()
	}
	f.Body = u.audits.body
}

func (u *UI) readAudit(ctx context.Context) (b auditBody) {
	data, _, err := u.cfg.Client.Get(ctx, deed.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return b
	case errors.Is(err, zk.ErrNoAuth):
		b.Why = "There is no permission to read " + deed.Path + "."
		return b
	case err != nil:
		b.Why = "The audit cannot be read: no server answers."
		return b
	}
	log, err := deed.ParseLog(data)
	if err != nil {
		b.Why = "The node " + deed.Path + " has other data."
		return b
	}
	for _, e := range slices.Backward(log.Items) {
		item := auditItem{Entry: e}
		for _, p := range e.Places {
			if len(item.Shown) == 5 {
				item.More = len(e.Places) - 5
				break
			}
			item.Shown = append(item.Shown, auditPlace{p, u.name(p.Path)})
		}
		if b.Items = append(b.Items, item); len(b.Items) == 200 {
			break
		}
	}
	return b
}
