//go:build unix

package interop

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/zkproto"
)

// A session expires after this many operations, which takes three ticks.
const diffExpireEvery = 25_000

// A diffCoverage counts outcomes: operations by error code, notifications by type.
type diffCoverage map[string]map[string]int

func (c diffCoverage) add(what, outcome string) {
	if c[what] == nil {
		c[what] = make(map[string]int)
	}
	c[what][outcome]++
}

// kinds returns the number of different outcomes.
func (c diffCoverage) kinds() int {
	n := 0
	for _, outcomes := range c {
		n += len(outcomes)
	}
	return n
}

func (c diffCoverage) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "\n  %s:", what)
		for _, outcome := range slices.Sorted(maps.Keys(c[what])) {
			fmt.Fprintf(&b, " %s×%d", outcome, c[what][outcome])
		}
	}
	return b.String()
}

// opName distinguishes operations that share a name in error messages.
func opName(op zkproto.Op) string { return strconv.Itoa(int(op)) + " " + op.String() }

// Outcomes that a stream of some length must produce. A generator that has lost an operation,
// or can no longer make one fail, compares nothing and finds no difference. Each of these
// occurs at least ten times in 100,000 operations; rarer ones are not listed.
var diffMustSee = map[zkproto.Op]string{
	zkproto.OpCreate: "0 -8 -101 -102 -108 -110 -114", zkproto.OpCreate2: "0 -8 -101 -102 -108 -110 -114",
	zkproto.OpCreateContainer: "0 -8 -101 -102 -110", zkproto.OpCreateTTL: "0 -8 -101 -102 -108 -110 -114",
	zkproto.OpDelete: "0 -8 -101 -102 -103 -111", zkproto.OpSetData: "0 -8 -101 -102 -103", zkproto.OpSetACL: "0 -8 -101 -102 -103 -114",
	zkproto.OpExists: "0 -101", zkproto.OpGetData: "0 -101 -102", zkproto.OpGetChildren: "0 -101 -102", zkproto.OpGetChildren2: "0 -101 -102",
	zkproto.OpGetACL: "0 -101 -102", zkproto.OpGetAllChildrenNumber: "0 -101 -102", zkproto.OpGetEphemerals: "0", zkproto.OpWhoAmI: "0",
	zkproto.OpSync: "0", zkproto.OpPing: "0", zkproto.OpMulti: "0 -5", zkproto.OpMultiRead: "0 -5", zkproto.OpReconfig: "-123",
	zkproto.OpCheckWatches: "0 -121", zkproto.OpRemoveWatches: "0 -121 -5", zkproto.OpAddWatch: "0", zkproto.OpSetWatches: "0",
	zkproto.OpSetWatches2: "0", zkproto.OpAuth: "0 -115", zkproto.OpCloseSession: "0", zkproto.OpSASL: "0",
}

func (c diffCoverage) check(t *testing.T, ops int) {
	t.Helper()
	if ops < 100_000 {
		return
	}
	for op, codes := range diffMustSee {
		for code := range strings.FieldsSeq(codes) {
			if c[opName(op)][code] == 0 {
				t.Errorf("%v never answered %s", op, code)
			}
		}
	}
	for code := range strings.FieldsSeq("0 -2 -8 -101 -102 -103 -108 -110 -111 -114") {
		if c["in multi"][code] == 0 {
			t.Errorf("no operation of a transaction answered %s", code)
		}
	}
	for _, e := range []zkproto.EventType{
		zkproto.EventNodeCreated, zkproto.EventNodeDeleted, zkproto.EventNodeDataChanged, zkproto.EventNodeChildrenChanged,
	} {
		if c["notified"][e.String()] == 0 {
			t.Errorf("nobody was notified of %v", e)
		}
	}
}
