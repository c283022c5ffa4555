package names

import "errors"

// ErrGone means that our own name is not in the list: our node is gone. It never means that nobody
// is ahead (etcd #11456). Either somebody has removed the node, or the server has ended our session
// and has not told us yet.
var ErrGone = errors.New("its node is gone")

// ErrSameNumber means that another contender has our number, so neither is ahead of the other.
// Apache's servers stop counting at 2147483647 and give that number to every later node of the
// directory. A writer that takes the read side makes a node with its own number (stepDown in
// package holdfast), but that node never waits. So a waiter has no legitimate twin.
var ErrSameNumber = errors.New("another node has the same number: the server has run out of numbers for this directory, which has to be removed and made anew")

// Ahead names the contenders that we must wait for, as far as we need to know them: the two nearest.
//
// It stays true from the moment of its list until they go, because the set of those ahead only
// shrinks: the server gives no number twice under one parent, and a list that has our own node is
// younger than every create before ours. There are two exceptions. Creating a node by hand with a
// used number jumps the queue; this cannot be prevented. Replaced is the other.
type Ahead struct {
	Near, Far string // "": there is none

	// Replaced: a node that no list has shown may have taken near's place when near is gone, and we
	// must wait for it. It is a reader (see StepsDown), or a lock that no session owns (see detached.go).
	Replaced bool

	// Others counts the children that have no place in the queue.
	Others int
}

// Nobody reports whether there is nobody to wait for.
func (a Ahead) Nobody() bool { return a.Near == "" }

// Last reports whether nobody is left when near is gone.
func (a Ahead) Last() bool { return a.Far == "" && !a.Replaced }

// FarGone returns what is ahead once far, and everybody before it, is gone.
func (a Ahead) FarGone() Ahead {
	a.Far = ""
	return a
}

// Ahead returns the contenders among names that me waits for. A waiter that watches the nearest of
// them wakes when the lock may be free, and not before. (Curator's readers watch the first writer,
// and all of them wake for each.)
//
// The error is ErrGone if me is not among the names, and ErrSameNumber if another has its number.
func (g *Grammar) Ahead(names []string, me string) (Ahead, error) {
	mine, ok := g.Parse(me)
	if !ok {
		return Ahead{}, ErrGone
	}
	var near, far Contender
	present, twin, others := false, false, 0
	for _, n := range names {
		if n == me {
			present = true
			continue
		}
		c, ok := g.Parse(n)
		switch {
		case !ok:
			others++
		case c.Seq == mine.Seq && !(c.Shared && mine.Shared):
			twin = true
		case !mine.WaitsFor(c):
		case near.Name == "" || Before(near.Seq, c.Seq):
			near, far = c, near
		case far.Name == "" || Before(far.Seq, c.Seq):
			far = c
		}
	}
	a, err := g.aheadOf(mine, near, far, present, twin)
	a.Others = others
	return a, err
}

// aheadOf is the end of Ahead, for both ways to find near and far.
func (g *Grammar) aheadOf(mine, near, far Contender, present, twin bool) (Ahead, error) {
	switch {
	case !present:
		return Ahead{}, ErrGone
	case twin:
		return Ahead{}, ErrSameNumber
	}
	replaced := near.Name != "" && (IsDetaching(near.Name) || !mine.Shared && !near.Shared && g.StepsDown(near.Form))
	return Ahead{Near: near.Name, Far: far.Name, Replaced: replaced}, nil
}
