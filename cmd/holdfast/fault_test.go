package main

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
		{&holdfast.Error{Op: "try lock", Path: "/l", Err: holdfast.ErrLocked}, exitBusy},
		{&zk.Error{Op: "create", Path: "/l", Err: zk.ErrNoAuth}, exitDenied},
		{&zk.Error{Op: "session", Err: fmt.Errorf("connect to h:1: %w", zk.ErrAuthFailed)}, exitDenied},
		{fmt.Errorf("open: %w", fs.ErrPermission), exitDenied},
		{&zk.Error{Op: "get", Path: "l", Err: zk.ErrInvalidPath}, exitUsage},
		{&holdfast.Error{Op: "unlock", Path: "/l", Err: fmt.Errorf("%w: %w", holdfast.ErrLost, zk.ErrSessionExpired)}, exitLost},
		// A loss is reported as a loss, whatever the network error beside it.
		{&holdfast.Error{Op: "unlock", Path: "/l", Err: fmt.Errorf("%w: %w", holdfast.ErrLost, zk.ErrAuthFailed)}, exitLost},
		{misconfigured("", "server: %w", fs.ErrPermission), exitConfig},
		{errors.New("anything else"), exitUnavailable},
	} {
		if got := explain(tt.err).code; got != tt.want {
			t.Errorf("%v: exit code %d; want %d", tt.err, got, tt.want)
		}
	}
}
