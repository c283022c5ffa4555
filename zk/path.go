package zk

import "holdfast/zkproto"

// ValidatePath applies ZooKeeper's rules to a path, as every operation does before it
// sends anything; for those who want to know earlier. The error is ErrInvalidPath and
// says what is wrong.
func ValidatePath(path string) error { return zkproto.ValidatePath(path) }
