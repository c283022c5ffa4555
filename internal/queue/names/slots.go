package names

import (
	"fmt"
	"math"
)

// Slots is the grammar of slots: a semaphore whose permits are numbers. A permit's whole name
// tells its number, so the server does not give a number twice.
var Slots = func() *Grammar {
	g := *Default
	g.Semaphore = Semaphore{
		Turnstile: "/slot-queue", Leases: "/slots", Lease: slotForm, Numbered: true, Slots: true,
		Queue: translate(Layout{Name: "slots", Shared: []string{slotForm}}),
	}
	return &g
}()

const slotForm = "slot-"

// MaxSlot is the largest number of a slot: names have ten digits, and numbers compare as int32.
const MaxSlot = math.MaxInt32

// SlotName returns the name of the node of a slot, between 0 and MaxSlot. There is one name for each
// number.
func SlotName(number int) string { return fmt.Sprintf("%s%010d", slotForm, number) }

// SlotOf returns the number in the name of a slot's node.
func SlotOf(name string) (number int, ok bool) {
	c, ok := Slots.Semaphore.Queue.Parse(name)
	return int(c.Seq), ok && c.Seq >= 0
}
