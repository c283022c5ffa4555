package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/locks"
)

const locksOnPage = 100

type locksBody struct {
	Q, Kind, State, Owner, Sort string
	Kinds, States               []string
	Rows                        []row
	Total, Found                int
	From, To                    int
	Prev, Next                  string
	Heads                       []head
	In, Up                      string // the prefix of the group that is shown, and the way back
	Groups                      []group
	MoreGroups                  int
}

// A group is the locks whose names begin with a prefix that ends with /.
type group struct {
	Name, Href           string
	Locks, Held, Waiting int
}

// groupsOnPage bounds the groups that are shown.
const groupsOnPage = 24

type head struct {
	Text, Href string
	By         string // the value of sort
	Here       bool
	Number     bool
}

func (u *UI) locks(r *http.Request, v view, f *frame) {
	q := r.URL.Query()
	b := locksBody{
		Q: q.Get("q"), Kind: q.Get("kind"), State: q.Get("state"), Owner: q.Get("owner"), Sort: cmp.Or(q.Get("sort"), "name"),
		Kinds: kinds, States: []string{"held", "waiting", "kept", "detached", "reserved", "foreign", "unreadable"}, Total: len(v.locks), In: q.Get("in"),
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
	prefix := u.cfg.Prefix
	if b.In != "" {
		prefix = strings.TrimSuffix(u.cfg.Namespace, "/") + "/" + b.In
		if strings.HasPrefix(b.In, "/") {
			prefix = b.In
		}
	}
	f.Command = u.command(append(words, prefix)...)
	var rows []row
	text := strings.ToLower(b.Q)
	for _, l := range v.locks {
		x := u.row(l)
		switch {
		case b.Kind != "" && x.Kind != b.Kind,
			b.State == "waiting" && x.Waiters == 0,
			b.State == "held" && !x.Taken,
			!strings.HasPrefix(x.Name, b.In),
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
		for _, k := range []string{"q", "kind", "state", "owner", "sort", "in"} {
			if val := q.Get(k); val != "" {
				c.Set(k, val)
			}
		}
		for k := range set {
			c.Set(k, set.Get(k))
		}
		return "locks?" + c.Encode()
	}
	b.Groups, b.MoreGroups = groups(rows, b.In, func(in string) string { return at(url.Values{"in": {in}}) })
	if b.In != "" {
		up := strings.TrimSuffix(b.In, "/")
		b.Up = at(url.Values{"in": {up[:strings.LastIndexByte(up, '/')+1]}})
	}
	if page > 0 {
		b.Prev = at(url.Values{"page": {strconv.Itoa(page - 1)}})
	}
	if b.To < len(rows) {
		b.Next = at(url.Values{"page": {strconv.Itoa(page + 1)}})
	}
	for _, h := range [][2]string{{"Lock", "name"}, {"State", ""}, {"Holder", "owner"}, {"Held for", "hold"}, {"Waiters", "waiters"}, {"Oldest wait", "wait"}, {"Permits", ""}, {"Token", ""}, {"Why", ""}} {
		x := head{Text: h[0], By: h[1], Here: h[1] == b.Sort, Number: h[1] == "hold" || h[1] == "waiters" || h[1] == "wait"}
		if h[1] != "" {
			x.Href = at(url.Values{"sort": {h[1]}})
		}
		b.Heads = append(b.Heads, x)
	}
	f.Body = b
}

// groups returns the groups of rows whose names begin with in, the largest first, and how many are left out. One group of
// all rows is none.
func groups(rows []row, in string, href func(in string) string) (all []group, more int) {
	by := make(map[string]*group)
	for _, x := range rows {
		rest := x.Name[len(in):]
		i := strings.IndexByte(rest[min(1, len(rest)):], '/') // a name outside of the namespace begins with /
		if i < 0 || x.Kind == string(locks.Shards) {
			continue
		}
		name := in + rest[:i+2]
		g := by[name]
		if g == nil {
			g = &group{Name: name, Href: href(name)}
			by[name] = g
		}
		g.Locks++
		g.Waiting += x.Waiters
		if x.Taken {
			g.Held++
		}
	}
	for _, g := range by {
		if g.Locks > 1 && g.Locks < len(rows) {
			all = append(all, *g)
		}
	}
	slices.SortFunc(all, func(a, b group) int { return cmp.Or(b.Locks-a.Locks, strings.Compare(a.Name, b.Name)) })
	if more = max(0, len(all)-groupsOnPage); more > 0 {
		all = all[:groupsOnPage]
	}
	return all, more
}

func hasOwner(l *lock, text string) bool {
	return slices.ContainsFunc(l.places(), func(p place) bool { return strings.Contains(strings.ToLower(p.Owner), text) })
}

func hasText(l *lock, text string) bool {
	return slices.ContainsFunc(l.places(), func(p place) bool {
		return strings.Contains(strings.ToLower(p.Owner+"\x00"+p.Reason+"\x00"+locks.SessionText(p.Session)), text)
	})
}
