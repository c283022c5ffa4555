package holdfast

import (
	"errors"
	"strconv"
	"strings"
)

// An ahead is what we know of those ahead of us that we must wait for: the names of the
// two nearest of them. It is true from the moment of the list that it was made from until they go,
// because those ahead only grow fewer: the server gives no number twice under one
// parent, and a list that has our own node in it is from after every create that
// came before ours. (Who makes a node by hand, with a number that was given before,
// jumps the queue, and nobody could stop him.) There is one exception, which is why
// there is mayStepDown.
type ahead struct {
	near, far string // "": there is none

	// mayStepDown: in near's place there may be a reader when it has gone, which we must
	// wait for and which no list has shown: see stepDown.
	mayStepDown bool

	// others is how many children have no place in the queue. It is no news of those ahead,
	// but whoever reads the names knows.
	others int
}

// nobody reports whether there is nobody to wait for.
func (a ahead) nobody() bool { return a.near == "" }

// last reports whether nobody is left when near has gone.
func (a ahead) last() bool { return a.far == "" && !a.mayStepDown }

// beforeGone is what is ahead when far is gone and with it everybody before.
func (a ahead) beforeGone() ahead {
	a.far = ""
	return a
}

// ahead says whom me waits for. Whoever watches the nearest of those is woken when the way
// may be free, and not before (Curator's readers watch the first writer, and all of them
// wake for each).
//
// errPlaceGone: me is not among the names; my node is gone, and whoever took that for
// "nobody ahead" would hold a lock that is not his (etcd #11456). errSameNumber: somebody
// has my number, so neither is ahead of the other.
func (g *grammar) ahead(names []string, me string) (ahead, error) {
	mine, ok := g.parse(me)
	if !ok {
		return ahead{}, errPlaceGone
	}
	var near, far contender
	present, twin, others := false, false, 0
	for _, n := range names {
		if n == me {
			present = true
			continue
		}
		c, ok := g.parse(n)
		switch {
		case !ok:
			others++
		case c.seq == mine.seq && !(c.shared && mine.shared):
			twin = true
		case !mine.waitsFor(c):
		case near.name == "" || before(near.seq, c.seq):
			near, far = c, near
		case far.name == "" || before(far.seq, c.seq):
			far = c
		}
	}
	a, err := g.aheadOf(mine, near, far, present, twin)
	a.others = others
	return a, err
}

// aheadOf says whom mine waits for, when near and far are the nearest of those and its own
// name is present, or somebody else's with its number.
func (g *grammar) aheadOf(mine, near, far contender, present, twin bool) (ahead, error) {
	switch {
	case !present:
		return ahead{}, errPlaceGone
	case twin:
		return ahead{}, errSameNumber
	}
	mayStepDown := near.name != "" && !mine.shared && !near.shared && g.stepsDown(near.form)
	return ahead{near: near.name, far: far.name, mayStepDown: mayStepDown}, nil
}

// errSameNumber: Apache's servers stop counting at 2147483647 and give that number to
// every later node of the directory. A reader with its writer's number (see stepDown) never
// waits, so nobody who waits has a twin for a good reason.
var errSameNumber = errors.New("another node has the same number: the server has run out of numbers for this directory, which has to be removed and made anew")

// longQueue is the number of names from which on looking at the queue again is too dear:
// in a longer one, holders leave a mark.
const longQueue = 32

// A mark is what a holder that came through a long queue leaves in the data of the
// queue's directory, in the transaction that removes its node: the zxid of that node's
// creation. It proves that nobody with that number or an earlier one stands in the queue
// any more, and that none ever will: the holder had waited for all of them, and has
// not stepped down. So who waits for somebody in particular can tell from a few bytes
// what it would need the whole list for. The zxid and not the number, since that
// comes back when it has wrapped, and the mark may be old.
//
// Readers leave none: they do not wait for the readers ahead of them. Who loses the
// lock leaves none either, nor do programs of other makes; then the list is read.
const markPrefix = "holdfast: passed "

func mark(czxid int64) []byte { return strconv.AppendInt([]byte(markPrefix), czxid, 10) }

// readMark is 0 if there is none.
func readMark(data []byte) int64 {
	s, ok := strings.CutPrefix(string(data), markPrefix)
	if !ok {
		return 0
	}
	czxid, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return czxid
}

// isMark reports whether a mark may be written over the data: they are one, or nobody's.
func isMark(data []byte) bool { return len(data) == 0 || readMark(data) != 0 }
