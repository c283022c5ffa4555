//go:build unix

package interop

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A turn is one tenure of a lock that several libraries share, as its holder recorded it: one
// line after it acquired the lock, one before it released it. All append to one file, so the
// order of the lines is the order of the grants, whatever clocks say.
type turn struct {
	mode   string // W excludes all, R allows readers only, P allows fewer than the limit
	node   string // the holder's node
	czxid  int64
	number int64 // the sequence number, or the czxid of a node without one
	begins int   // line number
	ends   int   // line number; past the last one if there is none
}

// conflicts reports whether one turn must have ended before the other begins.
func (t turn) conflicts(o turn) bool { return t.mode == "W" || o.mode == "W" }

const (
	numberFile = "number" // the count of turns of mode W
	turnsFile  = "turns"
)

// takeTurn does the work of a holder. A second holder at the same time loses an update of the
// number, and shows among the lines.
func takeTurn(dir, mode, node string, czxid int64) error {
	number := filepath.Join(dir, numberFile)
	if err := note(dir, "+ %s %s %d\n", mode, node, czxid); err != nil {
		return err
	}
	var err error
	switch mode {
	case "W":
		err = addOne(number)
	case "R":
		var before, after int
		before, err = readNumber(number)
		time.Sleep(time.Millisecond) // so that others can come in between
		if err == nil {
			after, err = readNumber(number)
		}
		if err == nil && before != after {
			err = fmt.Errorf("the number went from %d to %d while a reader held the lock", before, after)
		}
	default:
		time.Sleep(time.Millisecond)
	}
	return errors.Join(err, note(dir, "- %s %s\n", mode, node))
}

func note(dir, format string, args ...any) error {
	f, err := os.OpenFile(filepath.Join(dir, turnsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, format, args...) // one write, so that lines do not mix
	return errors.Join(err, f.Close())
}

// parseTurns parses the records of the holders.
func parseTurns(text string) ([]turn, error) {
	var turns []turn
	open := make(map[string]int) // by node
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		f := strings.Fields(line)
		switch {
		case len(f) == 4 && f[0] == "+":
			czxid, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
			}
			t := turn{mode: f[1], node: f[2], czxid: czxid, number: czxid, begins: i, ends: len(lines)}
			if cut := len(f[2]) - 10; cut >= 0 {
				// kazoo's leases end in hexadecimal digits, and may by chance end in ten decimal ones.
				if n, err := strconv.ParseInt(f[2][cut:], 10, 32); err == nil && cut > 0 && strings.ContainsRune("-_", rune(f[2][cut-1])) {
					t.number = n
				}
			}
			open[t.node] = len(turns)
			turns = append(turns, t)
		case len(f) == 3 && f[0] == "-":
			which, ok := open[f[2]]
			if !ok {
				return nil, fmt.Errorf("line %d: %q ends a turn that did not begin", i+1, line)
			}
			turns[which].ends = i
			delete(open, f[2])
		default:
			return nil, fmt.Errorf("line %d: %q", i+1, line)
		}
	}
	return turns, nil
}

// checkTurns checks the turns on one lock, in one incarnation of its directory. At the beginning
// of a turn, all with a smaller number that it must wait for have ended. Of permits, fewer than
// the limit have not. So no turn is granted beside one that it excludes, and nobody overtakes.
// (Permits are numbered when they are granted, so their numbers do not show who came first.) The
// server counts up, so the order of czxids must agree with the numbers.
func checkTurns(turns []turn, permits int) error {
	var errs []error
	byNumber := slices.SortedFunc(slices.Values(turns), func(a, b turn) int { return cmp.Compare(a.number, b.number) })
	for i, t := range byNumber {
		if i > 0 && (byNumber[i-1].number == t.number || byNumber[i-1].czxid >= t.czxid) {
			errs = append(errs, fmt.Errorf("%s has czxid %d, after %s with %d", t.node, t.czxid, byNumber[i-1].node, byNumber[i-1].czxid))
		}
		var ahead []string
		for _, o := range byNumber[:i] {
			if (t.mode == "P" || t.conflicts(o)) && o.ends > t.begins {
				ahead = append(ahead, o.node)
			}
		}
		if len(ahead) > 0 && (t.mode != "P" || len(ahead) >= permits) {
			errs = append(errs, fmt.Errorf("%s was granted before these had ended: %v", t.node, ahead))
		}
	}
	return errors.Join(errs...)
}

func TestTurnsOutOfOrderAreNoticed(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		wrong       string // part of the error; "" for none
	}{
		{"one after the other", "+ W a-0000000001 11\n- W a-0000000001\n+ W b__lock__0000000003 13\n- W b__lock__0000000003", ""},
		{"overtaken", "+ W a-0000000003 13\n- W a-0000000003\n+ W b-0000000001 11\n- W b-0000000001", "a-0000000003 was granted before"},
		{"two at once", "+ W a-0000000001 11\n+ W b-0000000002 12\n- W a-0000000001\n- W b-0000000002", "b-0000000002 was granted before"},
		{"never ended", "+ W a-0000000001 11\n+ W b-0000000002 12\n- W b-0000000002", "b-0000000002 was granted before"},
		{"number twice", "+ W a-0000000001 11\n- W a-0000000001\n+ W b-0000000001 12\n- W b-0000000001", "czxid"},
		{"another incarnation", "+ W a-0000000002 11\n- W a-0000000002\n+ W b-0000000001 12\n- W b-0000000001", "czxid"},
		{"readers in any order", "+ R b__READ__0000000002 12\n+ R a__READ__0000000001 11\n- R a__READ__0000000001\n- R b__READ__0000000002", ""},
		{"reader before a writer ahead", "+ R b__READ__0000000002 12\n- R b__READ__0000000002\n+ W a__WRIT__0000000001 11\n- W a__WRIT__0000000001", "READ__0000000002 was granted before"},
		{"writer beside a reader ahead", "+ R a__READ__0000000001 11\n+ W b__WRIT__0000000002 12\n- R a__READ__0000000001\n- W b__WRIT__0000000002", "WRIT__0000000002 was granted before"},
		{"reader between writers", "+ W a-0000000001 11\n- W a-0000000001\n+ R b-0000000002 12\n- R b-0000000002\n+ W c-0000000003 13\n- W c-0000000003", ""},
		{"two permits of two", "+ P a-lease-0000000001 11\n+ P b-lease-0000000002 12\n- P a-lease-0000000001\n- P b-lease-0000000002", ""},
		{"three permits of two", "+ P a 11\n+ P b 12\n+ P c 13\n- P a\n- P b\n- P c", "c was granted before"},
		{"written down late, beside one", "+ P b 12\n+ P a 11\n- P a\n+ P c 13\n- P b\n- P c", ""},
		{"written down after it must have ended", "+ P c 13\n- P c\n+ P b 12\n+ P a 11\n- P b\n- P a", "c was granted before"},
		{"a lease with digits at its end", "+ P ffff1111111111 12\n- P ffff1111111111\n+ P 00000000000000 13\n- P 00000000000000", ""},
		{"half a line", "+ W a-0000000001", "line 1"},
		{"ends first", "- W a-0000000001", "did not begin"},
	} {
		turns, err := parseTurns(c.lines + "\n")
		if err == nil {
			err = checkTurns(turns, 2)
		}
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %v; want %q", c.name, err, c.wrong)
		}
	}
}
