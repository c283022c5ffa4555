package top

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"holdfast"
	"holdfast/internal/cli/act"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
)

// A dialog asks the user before it acts, and says what has happened. There is one action at a time.
type dialog struct {
	act     func(a deed.Action, name, path, dir string, places []holdfast.Entry) tea.Cmd
	asking  *question
	doing   string // the action under way
	message string // until the next key
}

// doneMsg is the message that break or revoke has ended.
type doneMsg struct {
	action deed.Action
	name   string
	token  int64
	err    error
}

// ask asks whether to do an action, unless it cannot be done now.
func (d *dialog) ask(q *question, down bool) {
	switch {
	case d.doing != "":
		d.message = "wait for the last action to end"
	case down:
		d.message = "no server answers, so nothing can be done now"
	default:
		d.asking = q
	}
}

// check takes the question back if it is no longer about what the user saw.
func (d *dialog) check(list []see.Lock) {
	if d.asking == nil {
		return
	}
	i := slices.IndexFunc(list, func(l see.Lock) bool { return l.Key() == d.asking.lock })
	if i < 0 || !d.asking.holds(list[i]) {
		d.message = d.asking.name + " has changed since you were asked; nothing was done"
		d.asking = nil
	}
}

// answer takes the answer to the question.
func (d *dialog) answer(key string) tea.Cmd {
	q := d.asking
	d.asking = nil
	if key != "y" {
		d.message = "nothing was done"
		return nil
	}
	d.doing = fmt.Sprintf("%s %s, token %d …", q.action.Name, q.name, q.places[0].Token)
	return d.act(q.action, q.name, q.path, q.dir, q.places)
}

// done takes the result of an action.
func (d *dialog) done(r doneMsg) {
	d.doing = ""
	if r.err != nil {
		d.message = fmt.Sprintf("%s %s: %s", r.action.Name, r.name, strings.TrimPrefix(r.err.Error(), "holdfast: "))
	} else {
		d.message = fmt.Sprintf("%s %s, token %d", r.action.Done, r.name, r.token)
	}
}

// A question is whether to do an action.
type question struct {
	action deed.Action
	name   string
	path   string
	dir    string           // with the queue
	lock   string           // see.Lock.Key
	places []holdfast.Entry // those with one token
	text   string           // what happens to whom
}

// newQuestion returns the question whether to do a to the place in the queue of l. The time is that of the queue.
func newQuestion(a deed.Action, name string, l see.Lock, place int, now time.Time) *question {
	e := l.Queue[place]
	q := &question{action: a, name: name, path: l.Path, dir: l.Dir, lock: l.Key()}
	for _, other := range l.Queue {
		if other.Token == e.Token {
			q.places = append(q.places, other.Entry)
		}
	}
	var b bytes.Buffer
	act.ShowQueue(&b, term.Cut(name, term.MaxCell), &deed.Plan{Token: e.Token, Queue: l.Queue, Places: q.places}, now)
	q.text = strings.TrimSuffix(term.Cut(b.String(), 4000), "\n") + "\n" + a.Does
	return q
}

// holds reports whether the places of the question are as they were when it was asked.
func (q *question) holds(l see.Lock) bool {
	for _, p := range q.places {
		if !slices.ContainsFunc(l.Queue, func(e locks.Place) bool { return e.Path == p.Path && e.Token == p.Token && e.Held == p.Held }) {
			return false
		}
	}
	return true
}
