package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"holdfast/internal/cli/term"
	"holdfast/zk"
	"holdfast/zklocal"
)

func TestADirectoryOnASharedFileSystemIsAFaultOfTheConfiguration(t *testing.T) {
	cause := fmt.Errorf("zklocal: open /home/me: %w (nfs)", zklocal.ErrShared)
	got := unfit(cause)
	f, ok := errors.AsType[*term.Fault](got)
	if !ok || f.Code != term.ExitConfig || !strings.Contains(f.Hint, "XDG_STATE_HOME") || !errors.Is(got, zklocal.ErrShared) || got.Error() != cause.Error() {
		t.Errorf("got %v", got)
	}
	other := errors.New("something else")
	if got := unfit(other); got != other {
		t.Errorf("got %v; want %v", got, other)
	}
}

// The proof of a lease on an ensemble is only known for Apache's servers. So -v names others.
func TestVerboseNamesServersThatAreNotApache(t *testing.T) {
	for text, want := range map[string]string{
		"Zookeeper version: 3.8.0--1, built on 2023-12-11 17:30 UTC\nMode: standalone\n":          "",
		"ClickHouse Keeper version: v24.8.4.13-stable-, built on Sun Sep  1 2024\nMode: leader\n": "says that it is ClickHouse Keeper v24.8.4.13-stable-, and not Apache ZooKeeper",
		"srvr is not executed because it is not in the whitelist.\n":                              "",
		"": "",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			defer nc.Close()
			if _, err := io.ReadFull(nc, make([]byte, 4)); err == nil {
				_, _ = io.WriteString(nc, text)
			}
		}()
		var said strings.Builder
		say := term.NewSayer(&said)
		c := &Connection{Contact: newContact(Target{})}
		c.Contact.trace().ConnectDone(l.Addr().String(), 0, nil)
		c.identify(t.Context(), zk.Config{}, say)
		say.Flush()
		if got := said.String(); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%q: -v says %q; want %q", text, got, want)
		}
	}
}
