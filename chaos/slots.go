package chaos

import (
	"fmt"
	"strconv"
	"strings"
)

// SlotsOf returns the numbers of the slots that an operation on the holdfast.Slots at path has got.
func SlotsOf(o Op, path string) []int {
	digits, ok := strings.CutPrefix(o.Node, path+"/slots/slot-")
	if !ok {
		return nil
	}
	if o.Slots != nil {
		return o.Slots
	}
	number, err := strconv.Atoi(digits)
	if err != nil {
		return nil
	}
	return []int{number}
}

// SlotNode returns the path of the node of a slot.
func SlotNode(path string, number int) string {
	return fmt.Sprintf("%s/slots/slot-%010d", path, number)
}

// BySlot returns the history with a mutex for each number of the slots. slots reports whether a path is that
// of a holdfast.Slots. Attempts without a slot have no number and are left out.
func BySlot(ops []Op, slots func(path string) bool) []Op {
	var out []Op
	for _, o := range ops {
		switch {
		case !slots(o.Lock):
			out = append(out, o)
		case o.Kind == Break:
			o.Lock = "" // of whatever number: tokens and nodes tell
			out = append(out, o)
		case o.Kind == Change || o.Outcome != OK:
		default:
			path, claim := o.Lock, o.Claim
			for i, number := range SlotsOf(o, path) {
				o.Claim = claim + i<<28 // one for each mutex
				o.Lock, o.Type, o.Limit, o.Permits, o.HasSeq = fmt.Sprintf("%s#%d", path, number), Mutex, 0, 0, false
				o.Node, o.Slots = SlotNode(path, number), nil
				out = append(out, o)
			}
		}
	}
	return out
}
