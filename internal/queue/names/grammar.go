package names

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Grammar is a compiled Layout.
type Grammar struct {
	Name  string // of the Layout, for people
	Queue string // identifies the queue: the forms of its contenders
	Label string // names the queue to people, by its forms

	Mutex, Write, Read Template
	Container          bool
	Semaphore          Semaphore
	Watermarks         bool // holders of a long queue leave watermarks

	exclusive, shared []form
	invalid           error // what is wrong with the Layout
}

// A Semaphore says how a layout names a semaphore's nodes.
type Semaphore struct {
	Turnstile, Leases string   // appended to the path
	Lease             Template // a permit; "": the layout has no semaphore
	Numbered          bool     // a permit's name ends with a number, which the server appends except to a slot
	Slots             bool     // permits are slots, see Slots
	Queue             *Grammar // of permits with numbers, as if they were readers; others do not count
}

// Permits counts the children that are permits. Slots beyond the limit do not count: they are not given
// again.
func (s *Semaphore) Permits(names []string, limit int) int {
	if !s.Numbered {
		return len(names) // kazoo counts all children
	}
	permits := s.Queue.InQueue(names)
	if s.Slots {
		permits = slices.DeleteFunc(permits, func(c Contender) bool { return c.Seq < 0 || int(c.Seq) >= limit })
	}
	return len(permits)
}

// Compile makes the grammar of l. What is wrong with l is returned by Attempt.
func Compile(l Layout) *Grammar {
	g := translate(l)
	for _, k := range known {
		if g.Queue != k.Queue {
			continue
		}
		g.Label, g.Semaphore = k.Label, k.Semaphore
		// Everybody in the directory believes a watermark. So only a layout that is the same in
		// all but its name writes and reads them.
		g.Watermarks = k.Watermarks && g.Mutex == k.Mutex && g.Write == k.Write && g.Read == k.Read && g.Container == k.Container
	}
	return g
}

// translate makes a grammar without what only the known layouts have: a label, a semaphore and
// watermarks.
func translate(l Layout) *Grammar {
	g := &Grammar{
		Name: l.Name, Mutex: Template(l.Mutex), Write: Template(l.Write), Read: Template(l.Read),
		exclusive: formsOf(l.Exclusive), shared: formsOf(l.Shared), Container: l.Container, invalid: l.Invalid,
	}
	g.Queue = fmt.Sprintf("%q %q", g.exclusive, g.shared)
	g.Label = g.describe()
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

// describe returns the label of a grammar that is not of a known layout.
func (g *Grammar) describe() string {
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

// Bare reports whether the names of the places are numbers and nothing else. Directories of other locks may have such
// names, too.
func (g *Grammar) Bare() bool {
	return slices.Contains(g.exclusive, "") || slices.Contains(g.shared, "")
}

// Apart identifies a queue that can be in one directory with others whose places it does not see. It is "" for the known
// layouts: their locks refuse each other's places.
func (g *Grammar) Apart() string {
	if slices.ContainsFunc(known, func(k knownGrammar) bool { return k.Queue == g.Queue }) {
		return ""
	}
	return g.Queue
}

// named reports whether the queue is one of several in a directory, and its name.
func (g *Grammar) named() (name string, ok bool) {
	if len(g.exclusive) != 1 || len(g.shared) > 0 || strings.Contains(string(g.exclusive[0]), "*") {
		return "", false
	}
	return strings.CutSuffix(string(g.exclusive[0]), namedSeparator)
}

// Parse reads a child's name. A name that is in none of the forms has no place in the queue.
func (g *Grammar) Parse(name string) (Contender, bool) {
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
		c := Contender{Name: name, Form: name[:cut], Seq: seq}
		for _, f := range g.exclusive {
			if f.matches(c.Form) {
				return c, true
			}
		}
		for _, f := range g.shared {
			if f.matches(c.Form) {
				c.Shared = true
				return c, true
			}
		}
	}
	return Contender{}, false
}

// InQueue returns the queue that the names of the children make up, first place first. Names that
// are no places are left out.
func (g *Grammar) InQueue(names []string) []Contender {
	var q []Contender
	for _, name := range names {
		if c, ok := g.Parse(name); ok {
			q = append(q, c)
		}
	}
	slices.SortFunc(q, func(a, b Contender) int {
		switch {
		case Before(a.Seq, b.Seq):
			return -1
		case Before(b.Seq, a.Seq):
			return 1
		case a.Shared != b.Shared && b.Shared:
			return -1 // a writer that has taken the read side too: one number, two nodes
		case a.Shared != b.Shared:
			return 1
		}
		return 0
	})
	return q
}

// firstNumber is the first number that a server appends.
const firstNumber = "0000000000"

// sequence reads a number as the server writes it, and nothing else.
func sequence(s string) (int32, bool) {
	digits := strings.TrimPrefix(s, "-")
	if len(s) == 11 && (len(digits) == 11 || digits[0] == '0') || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && (n != 0 || s[0] != '-')
}

// A form is the text of a name without its number, with at most one * for any text.
type form string

// formsOf sorts the forms and drops duplicates.
func formsOf(texts []string) []form {
	var forms []form
	for _, text := range texts {
		forms = append(forms, form(text))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

func (f form) matches(s string) bool {
	head, tail, any := strings.Cut(string(f), "*")
	if !any {
		return s == head
	}
	return len(s) >= len(head)+len(tail) && strings.HasPrefix(s, head) && strings.HasSuffix(s, tail)
}
