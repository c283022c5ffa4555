package term

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"holdfast"
	"holdfast/zk"
)

func TestExitCodesOfErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{&holdfast.Error{Op: "try lock", Path: "/l", Err: holdfast.ErrLocked}, ExitBusy},
		{&zk.Error{Op: "create", Path: "/l", Err: zk.ErrNoAuth}, ExitDenied},
		{&zk.Error{Op: "session", Err: fmt.Errorf("connect to h:1: %w", zk.ErrAuthFailed)}, ExitDenied},
		{fmt.Errorf("open: %w", fs.ErrPermission), ExitDenied},
		{&zk.Error{Op: "get", Path: "l", Err: zk.ErrInvalidPath}, ExitUsage},
		{&holdfast.Error{Op: "unlock", Path: "/l", Err: fmt.Errorf("%w: %w", holdfast.ErrLost, zk.ErrSessionExpired)}, ExitLost},
		// A loss is reported as a loss, whatever the network error beside it.
		{&holdfast.Error{Op: "unlock", Path: "/l", Err: fmt.Errorf("%w: %w", holdfast.ErrLost, zk.ErrAuthFailed)}, ExitLost},
		{Misconfigured("", "server: %w", fs.ErrPermission), ExitConfig},
		{errors.New("anything else"), ExitUnavailable},
	} {
		if got := Explain(tt.err).Code; got != tt.want {
			t.Errorf("%v: exit code %d; want %d", tt.err, got, tt.want)
		}
	}
}
