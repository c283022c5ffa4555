package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/internal/deed"
	"holdfast/zk"
)

// A row is a lock in a table.
type row struct {
	Name, Href, Layout, Kind, State string
	Owner, Reason                   string
	Session, Token                  int64
	Since                           time.Time // of the first holder
	Bound                           bool
	More                            int // further holders
	Permits                         string
	Waiters                         int
	Oldest                          time.Time // when the first of the waiters joined
}

func (u *UI) row(l *lock) row {
	r := row{Name: u.name(l.Path), Href: u.href(l.key), Layout: l.Layout, Kind: kindOf(l), State: "free", Waiters: len(l.waiters)}
	if len(l.holders) > 0 {
		p := l.holders[0]
		r.State = "held"
		switch {
		case p.Kept:
			r.State = "kept"
		case p.Detached:
			r.State = "detached"
		}
		r.Owner, r.Reason, r.Session, r.Token, r.More = p.Owner, p.Reason, p.Session, p.Token, len(l.holders)-1
		r.Since, r.Bound = p.since()
	}
	for _, p := range l.waiters {
		if !p.Since.IsZero() && (r.Oldest.IsZero() || p.Since.Before(r.Oldest)) {
			r.Oldest = p.Since
		}
	}
	if l.Counted {
		r.Permits = strconv.Itoa(len(l.Permits)) + "/?"
		if l.Limit > 0 {
			r.Permits = strconv.Itoa(len(l.Permits)) + "/" + strconv.Itoa(l.Limit)
		}
	}
	return r
}

// kindOf names the kind of a lock.
func kindOf(l *lock) string {
	if l.Kind != "lock" {
		return l.Kind
	}
	for _, p := range slices.Concat(l.holders, l.waiters) {
		switch {
		case p.Shared:
			return "rwlock"
		case p.Value || l.Layout == "leaderlatch":
			return "election"
		}
	}
	return "lock"
}

var kinds = []string{"lock", "rwlock", "semaphore", "slots", "node", "election"}

// A stat is a number on the overview.
type stat struct {
	Label, Value, Note, Href string
	Since                    time.Time // the value is a time that goes on
	Bad                      bool
}

type overviewBody struct {
	Stats  []stat
	Roots  []rootRow
	Waits  []row // with the oldest waits
	Holds  []row // held longest
	Events []eventRow
	Empty  bool
}

type rootRow struct {
	Owner, Session, Href string
	Blocks               int
	Locks                []row
	Cycle                int
}

type eventRow struct {
	event
	Name, Href string
}

func (u *UI) eventRows(all []event) (rows []eventRow) {
	for _, e := range all {
		rows = append(rows, eventRow{e, u.name(e.Key.path), u.href(e.Key)})
	}
	return rows
}

func (u *UI) overview(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Overview", u.command("ls", u.cfg.Prefix)
	b := overviewBody{Empty: len(v.locks) == 0}
	held, waiting := 0, 0
	sessions := make(map[int64]bool)
	var oldest, longest row
	var rows []row
	for _, l := range v.locks {
		x := u.row(l)
		rows = append(rows, x)
		waiting += x.Waiters
		if len(l.holders) > 0 {
			held++
		}
		for _, p := range slices.Concat(l.holders, l.waiters) {
			sessions[p.Session] = true
		}
	}
	delete(sessions, 0)
	for _, x := range rows {
		if !x.Oldest.IsZero() && (oldest.Name == "" || x.Oldest.Before(oldest.Oldest)) {
			oldest = x
		}
		if x.State == "held" && !x.Since.IsZero() && (longest.Name == "" || x.Since.Before(longest.Since)) {
			longest = x
		}
	}
	g := u.graphOf(v)
	b.Roots = g.Roots
	b.Stats = []stat{
		{Label: "Locks held", Value: strconv.Itoa(held), Note: "of " + count(len(v.locks), "lock"), Href: "locks?state=held"},
		{Label: "Clients waiting", Value: strconv.Itoa(waiting), Note: "from " + count(len(sessions), "session"), Href: "locks?state=waiting&sort=wait"},
		{Label: "Oldest wait", Value: "none", Href: "locks?state=waiting&sort=wait"},
		{Label: "Longest hold", Value: "none", Href: "locks?state=held&sort=hold"},
		{Label: "Root blockers", Value: strconv.Itoa(len(g.Roots)), Note: "wait for nobody, block others", Href: "graph"},
		{Label: "Deadlocks", Value: strconv.Itoa(len(g.Cycles)), Note: "cycles of waits", Href: "graph", Bad: len(g.Cycles) > 0},
	}
	if oldest.Name != "" {
		b.Stats[2].Value, b.Stats[2].Since, b.Stats[2].Note, b.Stats[2].Href = age(v.now, oldest.Oldest), oldest.Oldest, oldest.Name, oldest.Href
	}
	if longest.Name != "" {
		b.Stats[3].Value, b.Stats[3].Since, b.Stats[3].Note, b.Stats[3].Href = age(v.now, longest.Since), longest.Since, longest.Name, longest.Href
	}
	sortRows(rows, "wait")
	for _, x := range rows {
		if x.Waiters > 0 && len(b.Waits) < 8 {
			b.Waits = append(b.Waits, x)
		}
	}
	if len(b.Roots) > 6 {
		b.Roots = b.Roots[:6]
	}
	b.Events = u.eventRows(u.state.recentEvents(12))
	f.Body = b
}

// sortRows sorts rows that are sorted by name.
func sortRows(rows []row, by string) {
	first := func(a, b time.Time) int {
		switch {
		case a.IsZero() && b.IsZero():
			return 0
		case a.IsZero():
			return 1
		case b.IsZero():
			return -1
		}
		return a.Compare(b)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		switch by {
		case "wait":
			return first(a.Oldest, b.Oldest)
		case "hold":
			return first(a.Since, b.Since)
		case "waiters":
			return b.Waiters - a.Waiters
		case "owner":
			return strings.Compare(a.Owner, b.Owner)
		}
		return 0
	})
}

const locksOnPage = 100

type locksBody struct {
	Q, Kind, State, Owner, Sort string
	Kinds, States               []string
	Rows                        []row
	Total, Found                int
	From, To                    int
	Prev, Next                  string
	Heads                       []head
}

type head struct {
	Text, Href string
	Here       bool
	Number     bool
}

func (u *UI) locks(r *http.Request, v view, f *frame) {
	q := r.URL.Query()
	b := locksBody{
		Q: q.Get("q"), Kind: q.Get("kind"), State: q.Get("state"), Owner: q.Get("owner"), Sort: cmp.Or(q.Get("sort"), "name"),
		Kinds: kinds, States: []string{"held", "waiting", "kept", "detached"}, Total: len(v.locks),
	}
	f.Title = "Locks"
	words := []string{"ls"}
	switch b.State {
	case "held":
		words = append(words, "--held")
	case "waiting":
		words = append(words, "--waiting")
	}
	if b.Owner != "" {
		words = append(words, "--owner", "*"+b.Owner+"*")
	}
	if b.Sort == "wait" || b.Sort == "hold" {
		words = append(words, "--sort", b.Sort)
	}
	f.Command = u.command(append(words, u.cfg.Prefix)...)
	var rows []row
	text := strings.ToLower(b.Q)
	for _, l := range v.locks {
		x := u.row(l)
		switch {
		case b.Kind != "" && x.Kind != b.Kind,
			b.State == "waiting" && x.Waiters == 0,
			b.State == "held" && len(l.holders) == 0,
			b.State != "" && b.State != "waiting" && b.State != "held" && x.State != b.State,
			b.Owner != "" && !hasOwner(l, strings.ToLower(b.Owner)),
			text != "" && !strings.Contains(strings.ToLower(x.Name+"\x00"+l.Path), text) && !hasText(l, text):
			continue
		}
		rows = append(rows, x)
	}
	sortRows(rows, b.Sort)
	b.Found = len(rows)
	page, _ := strconv.Atoi(q.Get("page"))
	page = max(0, min(page, (len(rows)-1)/locksOnPage))
	b.From, b.To = page*locksOnPage, min(len(rows), (page+1)*locksOnPage)
	b.Rows = rows[b.From:b.To]
	at := func(set url.Values) string {
		c := url.Values{}
		for _, k := range []string{"q", "kind", "state", "owner", "sort"} {
			if val := q.Get(k); val != "" {
				c.Set(k, val)
			}
		}
		for k := range set {
			c.Set(k, set.Get(k))
		}
		return "locks?" + c.Encode()
	}
	if page > 0 {
		b.Prev = at(url.Values{"page": {strconv.Itoa(page - 1)}})
	}
	if b.To < len(rows) {
		b.Next = at(url.Values{"page": {strconv.Itoa(page + 1)}})
	}
	for _, h := range [][2]string{{"Lock", "name"}, {"State", ""}, {"Holder", "owner"}, {"Held for", "hold"}, {"Waiters", "waiters"}, {"Oldest wait", "wait"}, {"Permits", ""}, {"Token", ""}, {"Why", ""}} {
		x := head{Text: h[0], Here: h[1] == b.Sort, Number: h[1] == "hold" || h[1] == "waiters" || h[1] == "wait"}
		if h[1] != "" {
			x.Href = at(url.Values{"sort": {h[1]}})
		}
		b.Heads = append(b.Heads, x)
	}
	f.Body = b
}

func hasOwner(l *lock, text string) bool {
	return slices.ContainsFunc(slices.Concat(l.holders, l.waiters), func(p place) bool { return strings.Contains(strings.ToLower(p.Owner), text) })
}

func hasText(l *lock, text string) bool {
	return slices.ContainsFunc(slices.Concat(l.holders, l.waiters), func(p place) bool {
		return strings.Contains(strings.ToLower(p.Owner+"\x00"+p.Reason+"\x00"+hex(p.Session)), text)
	})
}

// placesOnPage is how many places of a lock its page shows.
const placesOnPage = 200

type lockBody struct {
	Found      bool
	Path       string
	Row        row
	Holders    []holderRow
	Waiters    []waiterRow
	More       int // waiters that are not shown
	Gantt      gantt
	Histograms [2]histogram // of waits and holds
	Events     []event
	Gaps       []gap
	Others     []row // other locks in the same directory
}

type holderRow struct {
	place
	From   time.Time
	Bound  bool
	Labels [][2]string
	Within string
}

type waiterRow struct {
	place
	Position int
	Behind   string // whom it waits for
	Seq      int
}

func (u *UI) lock(r *http.Request, v view, f *frame) {
	q := r.URL.Query()
	path, layout, kind := q.Get("path"), q.Get("layout"), cmp.Or(q.Get("kind"), "lock")
	b := lockBody{Path: path}
	f.Title = "Lock"
	f.Status = http.StatusNotFound
	if err := zk.ValidatePath(path); err != nil || !strings.HasPrefix(path, u.cfg.Prefix) {
		b.Path = ""
		f.Command, f.Body = u.command("ls", u.cfg.Prefix), b
		return
	}
	f.Title = u.name(path)
	key := lockKey{path, layout, kind}
	var l *lock
	for _, x := range v.locks {
		switch {
		case x.Path != path:
		case x.key == key, layout == "" && q.Get("kind") == "" && l == nil:
			l = x
		default:
			b.Others = append(b.Others, u.row(x))
		}
	}
	words := []string{"status"}
	if layout != "" && layout != "curator" && kind != "slots" {
		words = append(words, "--layout", layout)
	}
	name := u.name(path)
	if strings.HasPrefix(name, "-") {
		words = append(words, "--")
	}
	f.Command = u.command(append(words, name)...)
	b.Row = row{Name: name, Layout: layout, Kind: kind, State: "free"}
	if l != nil {
		key = l.key
		b.Found, b.Row = true, u.row(l)
		f.Status = http.StatusOK
		for _, p := range l.holders {
			if len(b.Holders) == placesOnPage {
				break
			}
			h := holderRow{place: p}
			h.From, h.Bound = p.since()
			for _, k := range sortedKeys(p.Labels) {
				h.Labels = append(h.Labels, [2]string{k, p.Labels[k]})
			}
			if p.Within != 0 {
				h.Within = hex(p.Within)
			}
			b.Holders = append(b.Holders, h)
		}
		for i, p := range l.waiters {
			if i == placesOnPage {
				b.More = len(l.waiters) - i
				break
			}
			b.Waiters = append(b.Waiters, waiterRow{place: p, Position: i + 1, Behind: behind(l, p)})
		}
	}
	turns, gaps := u.state.pastOf(key)
	if len(turns) > 0 {
		f.Status = http.StatusOK
	}
	b.Gantt = newGantt(turns, gaps, v.now)
	b.Histograms[0], b.Histograms[1] = waitsAndHolds(turns)
	b.Gaps = gaps
	b.Events = eventsOf(turns)
	if len(b.Events) > 50 {
		b.Events = b.Events[:50]
	}
	f.Body = b
}

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// behind says whom a waiter waits for.
func behind(l *lock, p place) string {
	if l.Counted {
		if p.Ref == 0 {
			return "any of " + count(len(l.Permits), "permit")
		}
		return who(l.Queue[p.Ref-1].Owner, l.Queue[p.Ref-1].Session)
	}
	for i := p.Ref - 1; i >= 0; i-- {
		if x := l.Queue[i]; !p.Shared || !x.Shared {
			return who(x.Owner, x.Session)
		}
	}
	return ""
}

// who names a client.
func who(owner string, session int64) string {
	switch {
	case owner != "":
		return owner
	case session != 0:
		return "session " + hex(session)
	}
	return "no session"
}

// rowsOnPage bounds the other tables.
const rowsOnPage = 500

type sessionsBody struct {
	Rows []sessionRow
	More int
}

type sessionRow struct {
	Session     string
	Owner       string
	Held, Waits int
	Oldest      time.Time
	Locks       []placeRow
	More        int
}

type placeRow struct {
	Name, Href string
	Held       bool
}

func (u *UI) sessions(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Sessions", u.command("sessions")
	by := make(map[int64]*sessionRow)
	for _, l := range v.locks {
		for _, p := range slices.Concat(l.holders, l.waiters) {
			if p.Session == 0 {
				continue
			}
			s := by[p.Session]
			if s == nil {
				s = &sessionRow{Session: hex(p.Session)}
				by[p.Session] = s
			}
			s.Owner = cmp.Or(s.Owner, p.Owner)
			if p.Held {
				s.Held++
			} else {
				s.Waits++
				if !p.Since.IsZero() && (s.Oldest.IsZero() || p.Since.Before(s.Oldest)) {
					s.Oldest = p.Since
				}
			}
			if len(s.Locks) == 6 {
				s.More++
				continue
			}
			s.Locks = append(s.Locks, placeRow{u.name(l.Path), u.href(l.key), p.Held})
		}
	}
	var b sessionsBody
	for _, s := range by {
		b.Rows = append(b.Rows, *s)
	}
	slices.SortFunc(b.Rows, func(x, y sessionRow) int {
		return cmp.Or(y.Waits-x.Waits, y.Held-x.Held, strings.Compare(x.Session, y.Session))
	})
	if len(b.Rows) > rowsOnPage {
		b.Rows, b.More = b.Rows[:rowsOnPage], len(b.Rows)-rowsOnPage
	}
	f.Body = b
}

type electionsBody struct {
	Rows []electionRow
	More int
}

type electionRow struct {
	row
	Candidates []string
	Others     int
}

func (u *UI) elections(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Elections", u.command("ls", u.cfg.Prefix)
	var b electionsBody
	for _, l := range v.locks {
		if kindOf(l) != "election" {
			continue
		}
		if len(b.Rows) == rowsOnPage {
			b.More++
			continue
		}
		e := electionRow{row: u.row(l)}
		for _, p := range l.waiters {
			if len(e.Candidates) == 5 {
				e.Others++
				continue
			}
			e.Candidates = append(e.Candidates, who(p.Owner, p.Session))
		}
		b.Rows = append(b.Rows, e)
	}
	f.Body = b
}

type shardsBody struct{ Sets []shardSet }

type shardSet struct {
	Name    string
	Workers []shardWorker
	Shards  []shardRow
	Held    int
}

type shardWorker struct {
	Owner, Session string
	Leads          bool
	Shards         int
}

type shardRow struct {
	Name, Href, Owner string
	Since             time.Time
	Bound, Held       bool
}

func (u *UI) shards(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Shards", u.command("shard", "--help")
	var b shardsBody
	by := make(map[string]*lock)
	for _, l := range v.locks {
		by[l.Path] = l
	}
	for _, l := range v.locks {
		above, ok := strings.CutSuffix(l.Path, "/workers")
		if !ok {
			continue
		}
		u.state.mu.RLock()
		n, there := u.state.look(above + "/shards")
		u.state.mu.RUnlock()
		if !there {
			continue
		}
		set := shardSet{Name: u.name(above)}
		held := make(map[int64]int)
		sort := slices.Clone(n.Children)
		slices.SortFunc(sort, func(x, y string) int { return cmp.Or(len(x)-len(y), strings.Compare(x, y)) })
		for _, child := range sort {
			row := shardRow{Name: child}
			if s := by[above+"/shards/"+child]; s != nil {
				row.Href = u.href(s.key)
				if len(s.holders) > 0 {
					p := s.holders[0]
					row.Owner, row.Held = who(p.Owner, p.Session), true
					row.Since, row.Bound = p.since()
					held[p.Session]++
					set.Held++
				}
			}
			if len(set.Shards) < rowsOnPage {
				set.Shards = append(set.Shards, row)
			}
		}
		for i, p := range slices.Concat(l.holders, l.waiters) {
			if len(set.Workers) < rowsOnPage {
				set.Workers = append(set.Workers, shardWorker{workerOf(p), hex(p.Session), i == 0, held[p.Session]})
			}
		}
		b.Sets = append(b.Sets, set)
	}
	f.Body = b
}

// workerOf names a worker. Its node has its description.
func workerOf(p place) string { return who(p.Owner, p.Session) }

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
		ctx, cancel := context.WithTimeout(r.Context(), staleAfter)
		defer cancel()
		body := u.readAudit(ctx)
		if r.Context().Err() != nil { // this tab was closed, which says nothing to others
			f.Body = body
			return
		}
		u.audits.body, u.audits.at = body, time.Now()
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

type healthBody struct {
	Rows [][2]string
	Gaps []gap
	Bad  []string
}

func (u *UI) health(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Health", u.command("doctor")
	c := v.contact
	watch := "one persistent recursive watch"
	if c.Polls {
		watch = "none: this server has no persistent watches, so the page reads all locks again and again"
	}
	places := 0
	for _, l := range v.locks {
		places += len(l.holders) + len(l.waiters)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.state.mu.RLock()
	turns, gaps := len(u.state.past.order), slices.Clone(u.state.past.gaps)
	u.state.mu.RUnlock()
	proven := "never"
	if !c.Proven.IsZero() {
		proven = c.Proven.UTC().Format(time.RFC3339)
	}
	b := healthBody{Gaps: gaps, Rows: [][2]string{
		{"Locks below", u.cfg.Prefix},
		{"Session of this page", hex(c.Session)},
		{"Session timeout", c.Timeout.String()},
		{"Last answer took", took(c.Trip)},
		{"Complete as of", proven},
		{"Watch", watch},
		{"Nodes watched", strconv.Itoa(c.Nodes)},
		{"Locks in use", strconv.Itoa(len(v.locks))},
		{"Places in queues", strconv.Itoa(places)},
		{"Turns in the history", strconv.Itoa(turns)},
		{"Open tabs", strconv.Itoa(u.state.hub.count())},
		{"Memory of this process", strconv.Itoa(int(m.Sys>>20)) + " MiB"},
		{"Running since", u.started.UTC().Format(time.RFC3339)},
	}}
	if c.Denied > 0 {
		b.Bad = append(b.Bad, count(c.Denied, "node")+" cannot be read for lack of permission: locks there are not shown, or not completely.")
	}
	f.Body = b
}
