package shard

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"holdfast"
	"holdfast/shards"
	"holdfast/zktest"
)

// The loss of a shard also ends its context. The command then gets no TERM.
func TestCommandOfALostShardIsNotAskedToStop(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	hold, err := holdfast.NewMutex(srv.Client(), "/l").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := holdfast.Break(t.Context(), srv.Client(), "/l", hold.Token()); err != nil {
		t.Fatal(err)
	}
	<-hold.Lost()
	<-hold.Context().Done()
	w := &sharder{killAfter: time.Hour}
	for range 50 { // select takes one of two
		signals, kill := make(chan os.Signal, 2), make(chan struct{})
		w.stop(hold.Context(), shards.Shard{Hold: hold}, signals, kill, nil, t.Logf)
		if len(signals) > 0 {
			t.Fatalf("got %v; want no signal", <-signals)
		}
		<-kill
	}
}

// shard starts a command again later, unless it can never start.
func TestCommandsThatNeverRun(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOENT}:  true,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EACCES}:  true,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOEXEC}: true,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN}:  false,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOMEM}:  false,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EMFILE}:  false,
	} {
		if got := neverRuns(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
