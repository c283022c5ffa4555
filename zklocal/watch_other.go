//go:build !linux

package zklocal

import "errors"

// A watch would report changes of the directory. Here is none, so the host looks once in a
// while.
type watch struct{}

func newWatch(string) (*watch, error) { return nil, errors.ErrUnsupported }

func (*watch) addSocket(*socket)        {}
func (*watch) reports() <-chan struct{} { return nil }
func (*watch) close()                   {}
