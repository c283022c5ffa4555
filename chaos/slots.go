package chaos

import (
	"fmt"
	"strconv"
	"strings"
)

// SlotOf returns the number of the slot that an operation on the holdfast.Slots at path has got.
func SlotOf(o Op, path string) (number int, ok bool) {
	digits, ok := strings.CutPrefix(o.Node, path+"/slots/slot-")
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil
}

// BySlot returns the history with a mutex for each number of the slots. slots reports whether a path is that
// of a holdfast.Slots. Attempts without a slot have no number and are left out.
func BySlot(ops []Op, slots func(path string) bool) []Op {
	var out []Op
	for _, o := range ops {
		if !slots(o.Lock) {
			out = append(out, o)
			continue
		}
		number, ok := SlotOf(o, o.Lock)
		switch {
		case o.Kind == Break:
			o.Lock = "" // of whatever number: tokens and nodes tell
		case !ok || o.Kind == Change || o.Outcome != OK:
			continue
		default:
			o.Lock, o.Type, o.Limit, o.HasSeq = fmt.Sprintf("%s#%d", o.Lock, number), Mutex, 0, false
		}
		out = append(out, o)
	}
	return out
}
