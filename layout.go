package holdfast

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Layout says how the nodes of a lock are named, so that other libraries can wait in the same queue. All
// users of a lock must use one layout for it. Fill in the fields for a layout of your own. Package
// holdfast/layout has those of other libraries.
//
// A child whose name is in none of the forms has no place in the queue. If it is an ephemeral node of
// another layout of this package, or of another kind of lock, Lock fails with ErrKind: its maker would not
// wait for us. Other children are ignored; see Foreign.
type Layout struct {
	// Name says which layout it is, in errors and on the command line.
	Name string

	// Mutex, Write and Read are the names of new nodes, for a lock without sides and for the two sides
	// of a read-write lock. The server appends the number. If a name is "", the layout has no such lock.
	// In a name, {uuid} stands for a number that is new for every attempt, {hex} for the same without
	// dashes, {session} for the session's id in decimal, and {host} for the name of the machine. None of them
	// may stand directly before the number: other clients would read a digit at its end as a part of the
	// number. (layout.Article is literally so.) {} alone is the empty name: the node's name is the number.
	//
	// With {uuid} or {hex}, the name identifies a node whose answer was lost. Without, its data do: an id
	// is added to them, and WithValue and Detached are refused. See Names that come back.
	Mutex, Write, Read string

	// Exclusive and Shared are the forms of the names that contend for the lock, without the number and
	// with at most one *, which stands for any text. Shared is for readers.
	Exclusive, Shared []string

	// Parent is the mode of the nodes from the lock's path upwards when Lock has to make them:
	// zk.Container, or zk.Persistent, which is the zero value.
	Parent zk.Mode

	invalid error // what is wrong with it; Lock returns it
}

func layoutOf(n names.Layout) Layout {
	l := Layout{
		Name: n.Name, Mutex: n.Mutex, Write: n.Write, Read: n.Read,
		Exclusive: slices.Clone(n.Exclusive), Shared: slices.Clone(n.Shared), invalid: n.Invalid,
	}
	if n.Container {
		l.Parent = zk.Container
	}
	return l
}

// compile returns the grammar of l.
func (l *Layout) compile() *names.Grammar {
	return names.Compile(names.Layout{
		Name: l.Name, Mutex: l.Mutex, Write: l.Write, Read: l.Read,
		Exclusive: l.Exclusive, Shared: l.Shared, Container: l.Parent == zk.Container, Invalid: l.invalid,
	})
}

// ParseLayout returns the layout of a name: curator, leaderlatch, kazoo, go-zookeeper, writelock, hostrw, sessionid,
// article, named:NAME or form:PATTERN. The error is ErrLayout, and says what to write instead.
//
// PATTERN is the name of a node without its number, as in Layout.Mutex, for exclusive locks of one's own and of other
// programs: form:job-{host}-{uuid}- makes job-web1-<uuid>-0000000007, and every name that begins with job- and ends
// with a dash and a number is a place in the queue. Parents are persistent. The other programs must be able to read
// these names. For programs without an id in their names, leave it out: form:ex makes ex0000000007, as the lock of
// Ruby's zk does, and form: makes 0000000007, as that of Vitess does.
func ParseLayout(name string) (Layout, error) {
	if n, ok := strings.CutPrefix(name, "named:"); ok {
		l := layoutOf(names.Named(n))
		return l, l.invalid
	}
	if pattern, ok := strings.CutPrefix(name, "form:"); ok {
		l, err := names.Pattern(name, pattern)
		if err == nil {
			err = zk.ValidatePath("/" + names.Template(pattern).Attempt(0).Prefix + "0000000000")
		}
		if err != nil {
			return Layout{}, fmt.Errorf("%w %q: %w", ErrLayout, name, err)
		}
		return layoutOf(l), nil
	}
	var all []string
	for _, l := range names.Known {
		if l.Name == name {
			return layoutOf(l), nil
		}
		all = append(all, l.Name)
	}
	return Layout{}, fmt.Errorf("%w %q: want one of %s, named:NAME, form:PATTERN", ErrLayout, name, strings.Join(all, ", "))
}

// Contends reports whether a child of this name has a place in the queue.
func (l *Layout) Contends(name string) bool {
	_, ok := l.compile().Parse(name)
	return ok
}

// grammarOf returns the grammar of a layout that a caller may leave out.
func grammarOf(layout []Layout) (*names.Grammar, error) {
	switch len(layout) {
	case 0:
		return names.Default, nil
	case 1:
		g := layout[0].compile()
		return g, g.Invalid()
	}
	return nil, fmt.Errorf("%w: %d layouts: give one, or none for the default", zk.ErrBadArguments, len(layout))
}
