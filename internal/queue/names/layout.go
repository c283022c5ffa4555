package names

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrLayout is wrapped by every error about a layout that is unknown, contradicts itself, or cannot
// do what was asked.
var ErrLayout = errors.New("invalid layout")

// A Layout says how the nodes of a lock are named. The fields are those of the public type with the
// same name; see there.
type Layout struct {
	Name               string
	Mutex, Write, Read string
	Exclusive, Shared  []string
	Container          bool  // the nodes above the queue are made as containers
	Invalid            error // what is wrong with it already
}

// The layouts of other libraries.
var (
	Curator = Layout{
		Name:  "curator",
		Mutex: "_c_{uuid}-lock-", Write: "_c_{uuid}-__WRIT__", Read: "_c_{uuid}-__READ__",
		Exclusive: []string{"*lock-", "*__WRIT__"}, Shared: []string{"*__READ__"},
		Container: true,
	}
	LeaderLatch = Layout{
		Name:  "leaderlatch",
		Mutex: "_c_{uuid}-latch-", Exclusive: []string{"*latch-"},
		Container: true,
	}
	Kazoo = Layout{
		Name:  "kazoo",
		Mutex: "{hex}__lock__", Write: "{hex}__lock__", Read: "{hex}__rlock__",
		Exclusive: []string{"*__lock__"}, Shared: []string{"*__rlock__"},
	}
	GoZookeeper = Layout{
		Name:  "go-zookeeper",
		Mutex: "_c_{hex}-lock-", Exclusive: []string{"*lock-", "*__"},
	}
	WriteLock = Layout{
		Name:  "writelock",
		Mutex: "x-{session}-", Exclusive: []string{"*-"},
	}
	HostRW = Layout{
		Name:  "hostrw",
		Mutex: "{host}-W-", Write: "{host}-W-", Read: "{host}-R-",
		Exclusive: []string{"*-W-"}, Shared: []string{"*-R-"},
	}
	SessionID = Layout{
		Name:  "sessionid",
		Mutex: "lock-{session}-", Exclusive: []string{"lock-*-"},
	}
	Article = Layout{
		Name:  "article",
		Mutex: "lock-{session}", Exclusive: []string{"lock-*"},
	}
)

// Known are these layouts, in the order in which they are listed to users.
var Known = []Layout{Curator, LeaderLatch, Kazoo, GoZookeeper, WriteLock, HostRW, SessionID, Article}

// Named is the layout of one of several locks in one directory.
func Named(name string) Layout {
	l := Layout{Name: "named:" + name, Mutex: name + namedSeparator, Exclusive: []string{name + namedSeparator}}
	if name == "" || strings.Contains(name+"_", namedSeparator) || strings.ContainsAny(name, "/*{}") {
		l.Invalid = fmt.Errorf("%w %q: the NAME of named:NAME must not be empty nor contain %q, /, *, { or }",
			ErrLayout, l.Name, namedSeparator)
	}
	return l
}

const namedSeparator = "_lock_"

// Pattern is the layout of the exclusive locks whose nodes are made from one template. The error
// says what is wrong with the template.
func Pattern(name, pattern string) (Layout, error) {
	l := Layout{Name: name, Mutex: pattern, Exclusive: []string{string(Template(pattern).form())}}
	if pattern == "" {
		l.Mutex = string(bare)
	}
	return l, translate(l).checkPattern()
}

// A knownGrammar is what this package knows about one of the layouts in Known.
type knownGrammar struct {
	*Grammar
	nodes *Grammar // tells which nodes are of this layout; differs if the layout also respects others
}

// known are the grammars of Known, in their order.
var known = func() (all []knownGrammar) {
	for _, l := range Known {
		g := translate(l)
		g.Label = l.Name
		k := knownGrammar{Grammar: g, nodes: g}
		switch l.Name {
		case Curator.Name:
			g.Watermarks = true
			g.Semaphore = Semaphore{
				Turnstile: "/locks", Leases: "/leases", Lease: "_c_{uuid}-lease-", Numbered: true,
				Queue: translate(Layout{Name: l.Name, Shared: []string{"*lease-"}}),
			}
		case Kazoo.Name:
			g.Semaphore = Semaphore{Turnstile: "-__lock__", Lease: "{hex}"}
		case GoZookeeper.Name:
			k.nodes = translate(Layout{Exclusive: []string{"_c_*-lock-"}})
		case WriteLock.Name:
			k.nodes = translate(Layout{Exclusive: []string{"x-*-"}})
		}
		all = append(all, k)
	}
	return all
}()

// Default is the grammar of [Curator], the default layout.
var Default = known[0].Grammar

// Semaphores are the grammars of the known layouts that have a semaphore.
func Semaphores() []*Grammar {
	var all []*Grammar
	for _, k := range known {
		if k.Semaphore.Lease != "" {
			all = append(all, k.Grammar)
		}
	}
	return all
}

// several takes the nodes of all Named layouts, and anyForm every node that has a number.
var (
	several = translate(Layout{Exclusive: []string{"*" + namedSeparator}})
	anyForm = translate(Layout{Exclusive: []string{"*"}})
)

// Numbered reports whether a name ends with a number, in whatever form.
func Numbered(name string) bool {
	_, ok := anyForm.Parse(name)
	return ok
}

// Beside reports whether a name is that of a place in another lock of the same directory: the locks
// of Named layouts are told apart by their names.
func (g *Grammar) Beside(name string) bool {
	_, named := several.Parse(name)
	_, ours := g.named()
	return ours && named
}

// Belongs returns the label of the layout that a child of g's directory belongs to, if that is not
// g. It is "" if the name is in no known form, and for names that are [Grammar.Beside] ours, also
// where such a name fits another layout.
func (g *Grammar) Belongs(name string) string {
	if g.Beside(name) {
		return ""
	}
	for _, k := range known {
		if _, ok := k.nodes.Parse(name); ok && k.Queue != g.Queue {
			return k.Label
		}
	}
	if c, ok := several.Parse(name); ok {
		return "named:" + strings.TrimSuffix(c.Form, namedSeparator)
	}
	return ""
}

// Sees reports whether nodes that one of the two makes are contenders for the other.
func (g *Grammar) Sees(o *Grammar) bool {
	contends := func(maker, reader *Grammar) bool {
		return slices.ContainsFunc([]Template{maker.Mutex, maker.Write, maker.Read}, func(t Template) bool {
			_, ok := reader.Parse(t.Attempt(0).Prefix + firstNumber)
			return t != "" && ok
		})
	}
	return contends(g, o) || contends(o, g)
}

// StepsDown reports whether a reader's node with the same number may appear beside an exclusive node
// of this form after the waiters have looked. A writer that also takes the read side makes one
// (Curator since 5.5.0, and we). The node may be of another layout, and this layout may have no
// readers. A Mutex never makes one.
func (g *Grammar) StepsDown(form string) bool {
	return !g.Mutex.makes(form) || g.Write.makes(form) ||
		slices.ContainsFunc(known, func(k knownGrammar) bool { return k.Write.makes(form) })
}

// checkPattern says what is wrong with a grammar whose only names are those of one template, as a
// user has written it.
func (g *Grammar) checkPattern() error {
	pattern, rest := string(g.Mutex), string(g.Mutex)
	if g.Mutex == bare {
		rest = ""
	}
	for _, brace := range []string{"{uuid}", "{hex}", "{session}", "{host}"} {
		rest = strings.ReplaceAll(rest, brace, "")
	}
	switch form := g.Mutex.form(); {
	case strings.ContainsAny(rest, "{}"):
		return errors.New("braces are for {uuid}, {hex}, {session} and {host}, nothing else")
	case strings.ContainsAny(rest, "/*"):
		return errors.New("the name of a node contains no /, and a pattern no *: write braces, as in lock-{uuid}-")
	case form == "*":
		return errors.New("it fits every node, so those of other locks cannot be told apart: begin or end it with some text, as in lock-{uuid}-")
	case pattern == Article.Mutex:
		return fmt.Errorf("the session's id stands directly before the number: give --layout %s if the other programs have exactly these names", Article.Name)
	case g.Mutex.runsOn():
		return g.Mutex.errRunsOn()
	}
	sample := g.Mutex.Attempt(0).Prefix + firstNumber
	for _, k := range known {
		c, ok := k.Parse(sample)
		readers := ok && c.Shared
		if k.Read != "" {
			_, taken := g.Parse(k.Read.Attempt(0).Prefix + firstNumber)
			readers = readers || taken
		}
		if readers {
			return fmt.Errorf("readers of the layout %s cannot be told apart from the nodes of %s: choose other text", k.Name, pattern)
		}
	}
	return nil
}
