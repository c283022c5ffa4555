package supervise

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A message for which there is room is sent, however late this process gets a processor. Without room, send
// gives up: a process that is stopped reads nothing.
func TestMessageIsSentIfThereIsRoom(t *testing.T) {
	defer func(patience time.Duration) { sendPatience = patience }(sendPatience)
	sendPatience = -time.Second // over before the write
	l, other, err := newLink()
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	reader := &link{other}
	defer other.Close()
	if err := l.send(verbStart, 7, ""); err != nil {
		t.Fatal(err)
	}
	if m, err := reader.receive(); err != nil || m.verb != verbStart || m.value != 7 {
		t.Errorf("got %+v, %v", m, err)
	}
	for range 1 << 20 {
		if err = l.send(verbSay, 0, "full"); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a full link: %v; want a timeout", err)
	}
	if m, err := reader.receive(); err != nil || m.text != "full" {
		t.Errorf("got %+v, %v", m, err)
	}
	other.Close()
	if err := l.send(verbSay, 0, ""); err == nil {
		t.Error("sent to nobody")
	}
}
