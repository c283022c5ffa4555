package holdfast

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"holdfast/zk"
)

// A grammar is a compiled Layout. It makes the names of nodes and reads those of others;
// it is pure, and immutable once it is made.
//
// The forms identify a grammar, never the name that the Layout has: two queues with one
// name are still two queues, and one queue with two names is one.
type grammar struct {
	name  string // of the Layout, for people
	queue string // identifies the queue: the forms of its contenders
	label string // names the queue to people, by its forms: see LockToken

	mutex, write, read template
	exclusive, shared  []form
	parent             zk.Mode
	semaphore          semaphoreNodes
	marks              bool  // holders of a long queue leave marks, see mark in ahead.go
	invalid            error // what is wrong with the Layout; Lock returns it
}

// compile makes the grammar of l.
func (l *Layout) compile() *grammar {
	g := l.translate()
	for _, k := range knownGrammars {
		if g.queue != k.queue {
			continue
		}
		g.label, g.semaphore = k.label, k.semaphore
		// A mark is believed by everybody in the directory, so only a layout that is the
		// same in all but its name leaves and reads marks.
		g.marks = k.marks && g.mutex == k.mutex && g.write == k.write && g.read == k.read && g.parent == k.parent
	}
	return g
}

// translate makes a grammar without labels, semaphores and marks, which only this package's
// layouts have.
func (l *Layout) translate() *grammar {
	g := &grammar{
		name: l.Name, mutex: template(l.Mutex), write: template(l.Write), read: template(l.Read),
		exclusive: formsOf(l.Exclusive), shared: formsOf(l.Shared), parent: l.Parent, invalid: l.invalid,
	}
	g.queue = fmt.Sprintf("%q %q", g.exclusive, g.shared)
	g.label = g.describe()
	for _, f := range slices.Concat(g.exclusive, g.shared) {
		if g.invalid == nil && strings.Count(string(f), "*") > 1 {
			g.invalid = fmt.Errorf("%w %s: the form %q has more than one *", ErrLayout, l.Name, f)
		}
		if g.invalid == nil && strings.Contains(string(f), "/") {
			g.invalid = fmt.Errorf("%w %s: the form %q contains a /, which no name of a node does", ErrLayout, l.Name, f)
		}
	}
	return g
}

// describe is the label of a grammar that is none of this package's.
func (g *grammar) describe() string {
	join := func(forms []form) string {
		var parts []string
		for _, f := range forms {
			parts = append(parts, string(f))
		}
		return strings.Join(parts, "|")
	}
	if name, ok := g.named(); ok {
		return "named:" + name
	}
	label := "form:" + join(g.exclusive)
	if len(g.shared) > 0 {
		label += ",shared:" + join(g.shared)
	}
	return label
}

// named reports whether the queue is one of several in a directory, as LayoutNamed makes
// them, and its name.
func (g *grammar) named() (name string, ok bool) {
	if len(g.exclusive) != 1 || len(g.shared) > 0 || strings.Contains(string(g.exclusive[0]), "*") {
		return "", false
	}
	return strings.CutSuffix(string(g.exclusive[0]), namedSeparator)
}

// A form is the text of a name without its number, with at most one * for any text.
type form string

// formsOf sorts the forms, and drops those that are given twice.
func formsOf(texts []string) []form {
	var forms []form
	for _, text := range texts {
		forms = append(forms, form(text))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// matches reports whether s is of the form.
func (f form) matches(s string) bool {
	head, tail, any := strings.Cut(string(f), "*")
	if !any {
		return s == head
	}
	return len(s) >= len(head)+len(tail) && strings.HasPrefix(s, head) && strings.HasSuffix(s, tail)
}

// A template is what a new node's name is made from, without its number: see
// Layout.Mutex. "" makes none.
type template string

// unique reports whether the names that it makes tell attempts apart.
func (t template) unique() bool {
	return strings.Contains(string(t), "{uuid}") || strings.Contains(string(t), "{hex}")
}

// form is the form of the names that it makes: * stands for all from the first brace to
// the last.
func (t template) form() form {
	i, j := strings.IndexByte(string(t), '{'), strings.LastIndexByte(string(t), '}')
	if i < 0 || j < i {
		return form(t)
	}
	return form(t[:i] + "*" + t[j+1:])
}

// makes reports whether a node made from the template may have the text in its name.
func (t template) makes(text string) bool { return t != "" && t.form().matches(text) }

// fill makes a name.
func (t template) fill(id string, session int64) string {
	s := string(t)
	for _, f := range [...][2]string{
		// The name of the machine comes last: nobody knows what is in it.
		{"{uuid}", id}, {"{hex}", strings.ReplaceAll(id, "-", "")}, {"{session}", strconv.FormatInt(session, 10)}, {"{host}", host()},
	} {
		s = strings.ReplaceAll(s, f[0], f[1])
	}
	return s
}

// host is the name of the machine.
var host = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil || strings.Contains(name, "/") {
		return "unknown"
	}
	return name
})

// newUUID is a random number in the form of java.util.UUID's.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// A side is which of a layout's names a place goes by.
type side int

const (
	sideMutex side = iota
	sideWrite
	sideRead
)

func (s side) String() string { return [...]string{"mutex", "write side", "read side"}[s] }

// An attempt is the name of a node to be made, without the number that the server
// appends.
type attempt struct {
	prefix string
	id     string // new for every attempt
	unique bool   // the id is in the prefix, so the name tells whether the node was made
}

func newAttempt(t template, session int64) attempt {
	id := newUUID()
	return attempt{prefix: t.fill(id, session), id: strings.ReplaceAll(id, "-", ""), unique: t.unique()}
}

// attempt makes a name, and checks that the grammar reads it as its own.
func (g *grammar) attempt(s side, session int64) (attempt, error) {
	if g.invalid != nil {
		return attempt{}, g.invalid
	}
	t := [...]template{g.mutex, g.write, g.read}[s]
	if t == "" {
		return attempt{}, fmt.Errorf("%w %s: it has no %v", ErrLayout, g.name, s)
	}
	a := newAttempt(t, session)
	c, ok := g.parse(a.prefix + "0000000000")
	if !ok || c.form != a.prefix || c.shared != (s == sideRead) {
		list, other := "Exclusive", "Shared"
		if s == sideRead {
			list, other = other, list
		}
		return attempt{}, fmt.Errorf("%w %s: its own name %q for the %v is not among its forms: %s has to have a form such as %q, and %s none that it fits",
			ErrLayout, g.name, a.prefix, s, list, t.form(), other)
	}
	return a, nil
}

// parse reads a child's name. A name that is in none of the forms is not in the queue.
func (g *grammar) parse(name string) (contender, bool) {
	// The number is an int32 that wraps, in ten columns: 10 digits, or a sign and 9 or
	// 10. The sign comes first: where -- stands before it, one - belongs to the form.
	for _, width := range [...]int{11, 10} {
		cut := len(name) - width
		if cut < 0 {
			continue
		}
		seq, ok := sequence(name[cut:])
		if !ok {
			continue
		}
		c := contender{name: name, form: name[:cut], seq: seq}
		for _, f := range g.exclusive {
			if f.matches(c.form) {
				return c, true
			}
		}
		for _, f := range g.shared {
			if f.matches(c.form) {
				c.shared = true
				return c, true
			}
		}
	}
	return contender{}, false
}

// sequence reads a number as the server writes it, and nothing else.
func sequence(s string) (int32, bool) {
	digits := strings.TrimPrefix(s, "-")
	if len(s) == 11 && (len(digits) == 11 || digits[0] == '0') || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && (n != 0 || s[0] != '-')
}

// checkPattern says what is wrong with a grammar whose only names are those of one
// template, as a user has written it.
func (g *grammar) checkPattern() error {
	pattern, rest := string(g.mutex), string(g.mutex)
	for _, brace := range []string{"{uuid}", "{hex}", "{session}", "{host}"} {
		rest = strings.ReplaceAll(rest, brace, "")
	}
	switch form := g.mutex.form(); {
	case strings.ContainsAny(rest, "{}"):
		return errors.New("braces are for {uuid}, {hex}, {session} and {host}, nothing else")
	case strings.ContainsAny(rest, "/*"):
		return errors.New("the name of a node contains no /, and a pattern no *: write braces, as in lock-{uuid}-")
	case form == "*" || form == "":
		return errors.New("it fits every node, so those of other locks cannot be told apart: begin or end it with some text, as in lock-{uuid}-")
	}
	sample := newAttempt(g.mutex, 0).prefix + "0000000000"
	if err := zk.ValidatePath("/" + sample); err != nil {
		return err
	}
	for _, k := range knownGrammars {
		c, ok := k.parse(sample)
		readers := ok && c.shared
		if k.read != "" {
			_, taken := g.parse(newAttempt(k.read, 0).prefix + "0000000000")
			readers = readers || taken
		}
		if readers {
			return fmt.Errorf("readers of the layout %s cannot be told apart from the nodes of %s: choose other text", k.name, pattern)
		}
	}
	return nil
}

// sees reports whether nodes that one of the two makes are contenders for the other.
func (g *grammar) sees(o *grammar) bool {
	contends := func(maker, reader *grammar) bool {
		return slices.ContainsFunc([]template{maker.mutex, maker.write, maker.read}, func(t template) bool {
			_, ok := reader.parse(newAttempt(t, 0).prefix + "0000000000")
			return t != "" && ok
		})
	}
	return contends(g, o) || contends(o, g)
}

// stepsDown reports whether a reader's node with the same number may appear beside an exclusive
// node of this form after the waiters have looked. A writer that also takes the read side makes
// one (Curator since 5.5.0; ours in stepDown). The node may be of another layout, and this
// layout may have no readers. A Mutex never makes one.
func (g *grammar) stepsDown(text string) bool {
	return !g.mutex.makes(text) || g.write.makes(text) ||
		slices.ContainsFunc(knownGrammars, func(k *grammar) bool { return k.write.makes(text) })
}

// semaphoreNodes is how a layout names a semaphore's nodes.
type semaphoreNodes struct {
	turnstile, leases string   // appended to the path
	lease             template // a permit; "": the layout has no semaphore
	numbered          bool     // the server appends a number to it
	queue             *grammar // of permits with numbers, as if they were readers; others do not count
}

// permits counts the children that are permits.
func (n *semaphoreNodes) permits(names []string) int {
	if !n.numbered {
		return len(names) // kazoo counts whatever there is
	}
	return len(n.queue.inQueue(names))
}
