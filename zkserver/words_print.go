package zkserver

import (
	"fmt"
	"net"
	"strings"
)

// A wordAnswer is a text that does not grow for ever: the owner writes it, and everybody
// waits for the owner (CVE-2017-5637).
type wordAnswer struct {
	b   []byte
	cut bool
}

const maxWordAnswer = 4 << 20

func (w *wordAnswer) print(args ...any) {
	for _, a := range args {
		w.b = fmt.Append(w.b, a)
	}
}

func (w *wordAnswer) printf(format string, args ...any) { w.b = fmt.Appendf(w.b, format, args...) }

// full says that no more lines are taken, and leaves a note.
func (w *wordAnswer) full() bool {
	if !w.cut && len(w.b) > maxWordAnswer {
		w.cut = true
		w.print("... and more, which is left out\n")
	}
	return w.cut
}

// remote spells an address as Java does, "/127.0.0.1:2181".
func remote(nc net.Conn) string {
	if addr := nc.RemoteAddr(); addr != nil && addr.String() != "" {
		return "/" + addr.String()
	}
	return "/unix"
}

// printable keeps a path from forging lines: watches can be on any string.
func printable(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, path)
}
