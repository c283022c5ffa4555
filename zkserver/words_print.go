package zkserver

import (
	"fmt"
	"net"
	"strings"
)

// A wordAnswer is a text of limited length: the owner writes it, and all clients wait for the owner
// (CVE-2017-5637).
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

// full reports whether no more lines fit, and then appends a note that says so.
func (w *wordAnswer) full() bool {
	if !w.cut && len(w.b) > maxWordAnswer {
		w.cut = true
		w.print("... and more, which is left out\n")
	}
	return w.cut
}

// remote returns the address of a client as Java spells it, "/127.0.0.1:2181".
func remote(nc net.Conn) string {
	if addr := nc.RemoteAddr(); addr != nil && addr.String() != "" {
		return "/" + addr.String()
	}
	return "/unix"
}

// printable replaces control characters in a path, so that it cannot forge lines. A watch can be on
// any string.
func printable(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, path)
}
