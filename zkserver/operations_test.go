package zkserver

import (
	"strings"
	"testing"

	"holdfast/zkproto"
)

// The table has every operation of the protocol, and no other. Without a row, an operation
// would count as small and as no write.
func TestEveryOperationHasARow(t *testing.T) {
	for op := zkproto.Op(-100); op < 1000; op++ {
		_, has := operations[op]
		named := !strings.HasPrefix(op.String(), "op ")
		if op == zkproto.OpError || op == zkproto.OpCheck {
			named = false // only in transactions
		}
		if has != named {
			t.Errorf("%v (%d): in the table %v; in the protocol %v", op, op, has, named)
		}
	}
	for op, o := range operations {
		if o.write && (o.looks || o.answer != nil) {
			t.Errorf("%v counts as a write and as a read", op)
		}
	}
}
