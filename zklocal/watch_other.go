//go:build !linux

package zklocal

import "errors"

// A watch reports changes of the directory on Linux. Here there is none, so the host only
// checks at intervals.
type watch struct{}

func newWatch(string) (*watch, error) { return nil, errors.ErrUnsupported }

func (*watch) addSocket(*socket)        {}
func (*watch) reports() <-chan struct{} { return nil }
func (*watch) close()                   {}
