package names

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A Side is one of the names that a layout has for new nodes.
type Side int

const (
	Mutex Side = iota // of a lock without sides
	Write             // of a writer
	Read              // of a reader
)

func (s Side) String() string { return [...]string{"mutex", "write side", "read side"}[s] }

// A Template is what a new node's name is made from, without its number. In it, {uuid} stands for a
// number that is new for every attempt, {hex} for the same without dashes, {session} for the
// session's id in decimal, and {host} for the name of the machine. {} alone is the empty name. "" makes no name.
type Template string

// bare is the template of names that are a number and nothing else.
const bare Template = "{}"

// Unique reports whether the names that it makes tell attempts apart.
func (t Template) Unique() bool {
	return strings.Contains(string(t), "{uuid}") || strings.Contains(string(t), "{hex}")
}

// form returns the form of the names that it makes: * stands for all from the first brace to the
// last.
func (t Template) form() form {
	if t == bare {
		return ""
	}
	i, j := strings.IndexByte(string(t), '{'), strings.LastIndexByte(string(t), '}')
	if i < 0 || j < i {
		return form(t)
	}
	return form(t[:i] + "*" + t[j+1:])
}

// runsOn reports whether the text of a placeholder stands directly before the number. The text may end in a digit, and
// then a client that takes all digits at the end of a name for the number reads another number.
func (t Template) runsOn() bool {
	return t != bare && strings.HasSuffix(strings.TrimRight(string(t), "0123456789"), "}")
}

// errRunsOn says what is wrong with a template that runs on into the number.
func (t Template) errRunsOn() error {
	return fmt.Errorf("in %s, a placeholder stands directly before the number, and its text may end in a digit: other programs would read that digit as a part of the number. Put other text behind it, as in %[1]s-", t)
}

// makes reports whether a node made from the template may have the text in its name.
func (t Template) makes(text string) bool { return t != "" && t.form().matches(text) }

// An Attempt is the name of a node to be made, without the number that the server appends.
type Attempt struct {
	Prefix string
	ID     string // new for every attempt
	Unique bool   // the id is in the prefix, so the name tells whether the node was made
}

// Attempt makes a name.
func (t Template) Attempt(session int64) Attempt {
	id := newUUID()
	s, plain := string(t), strings.ReplaceAll(id, "-", "")
	for _, f := range [...][2]string{
		// The name of the machine comes last, since it may contain anything.
		{string(bare), ""}, {"{uuid}", id}, {"{hex}", plain}, {"{session}", strconv.FormatInt(session, 10)}, {"{host}", host()},
	} {
		s = strings.ReplaceAll(s, f[0], f[1])
	}
	return Attempt{Prefix: s, ID: plain, Unique: t.Unique()}
}

// Invalid says what is wrong with the Layout. It is nil if nothing is.
func (g *Grammar) Invalid() error { return g.invalid }

// Attempt makes a name for one side of the lock, and checks that the grammar reads it as its own. The
// error is ErrLayout.
func (g *Grammar) Attempt(s Side, session int64) (Attempt, error) {
	if g.invalid != nil {
		return Attempt{}, g.invalid
	}
	for _, t := range [...]Template{g.Mutex, g.Write, g.Read} {
		if t.runsOn() && !g.isArticle() {
			return Attempt{}, fmt.Errorf("%w %s: %w", ErrLayout, g.Name, t.errRunsOn())
		}
	}
	t := [...]Template{g.Mutex, g.Write, g.Read}[s]
	if t == "" {
		if g.Name == "" {
			return Attempt{}, fmt.Errorf("%w: it has no %v: fill in %[2]v, and Exclusive or Shared", ErrLayout, [...]string{"Mutex", "Write", "Read"}[s])
		}
		return Attempt{}, fmt.Errorf("%w %s: it has no %v: curator, kazoo and hostrw have one", ErrLayout, g.Name, s)
	}
	a := t.Attempt(session)
	c, ok := g.Parse(a.Prefix + firstNumber)
	if !ok || c.Form != a.Prefix || c.Shared != (s == Read) {
		list, other := "Exclusive", "Shared"
		if s == Read {
			list, other = other, list
		}
		return Attempt{}, fmt.Errorf("%w %s: its own name %q for the %v is not among its forms: %s has to have a form such as %q, and %s none that it fits",
			ErrLayout, g.Name, a.Prefix, s, list, t.form(), other)
	}
	return a, nil
}

// isArticle reports whether g is the grammar of Article, whatever its name. Its names are literally so, and its peers
// read them.
func (g *Grammar) isArticle() bool {
	return g.Mutex == Template(Article.Mutex) && g.Write == "" && g.Read == "" &&
		len(g.exclusive) == 1 && string(g.exclusive[0]) == Article.Exclusive[0] && len(g.shared) == 0
}

// host is the name of the machine.
var host = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil || strings.Contains(name, "/") {
		return "unknown"
	}
	return name
})

// newUUID returns a random number in the form of java.util.UUID's.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// NewID returns an id for an attempt, for names that are not made from a template.
func NewID() string { return strings.ReplaceAll(newUUID(), "-", "") }
