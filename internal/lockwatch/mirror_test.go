package lockwatch

import (
	"testing"

	"holdfast/zk"
)

// The part of a large node's data that a Mirror keeps does not keep the rest in memory.
func TestAMirrorKeepsNoMoreThanAPart(t *testing.T) {
	m := &Mirror{Base: "/", Nodes: make(map[string]*Node)}
	m.put("/large", zk.Result{Data: make([]byte, 1<<20)}, true)
	if n := m.Nodes["/large"]; len(n.Data) != mirroredData || cap(n.Data) > 2*mirroredData {
		t.Errorf("%d bytes of %d; want %d", len(n.Data), cap(n.Data), mirroredData)
	}
}
