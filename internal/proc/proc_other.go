//go:build !linux

package proc

import (
	"context"
	"errors"
	"net"
)

func self() (Group, error) { return Group{}, errors.ErrUnsupported }

func startOf(int) (uint64, error) { return 0, errors.ErrUnsupported }

func (g Group) gone() bool { return false }

// Confirm returns errors.ErrUnsupported.
func (g Group) Confirm(*net.UnixConn) error { return errors.ErrUnsupported }

// ConfirmSelf returns errors.ErrUnsupported.
func (g Group) ConfirmSelf() error { return errors.ErrUnsupported }

func (g Group) wait(context.Context, func(context.Context) (func(), error)) error {
	return errors.ErrUnsupported
}
