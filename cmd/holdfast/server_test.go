package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"holdfast/zklocal"
)

func TestADirectoryOnASharedFileSystemIsAFaultOfTheConfiguration(t *testing.T) {
	cause := fmt.Errorf("zklocal: open /home/me: %w (nfs)", zklocal.ErrShared)
	got := unfit(cause)
	f, ok := errors.AsType[*fault](got)
	if !ok || f.code != exitConfig || !strings.Contains(f.hint, "XDG_STATE_HOME") || !errors.Is(got, zklocal.ErrShared) || got.Error() != cause.Error() {
		t.Errorf("got %v", got)
	}
	other := errors.New("something else")
	if got := unfit(other); got != other {
		t.Errorf("got %v; want %v", got, other)
	}
}
