// Package outer reads what the holdfast run around this process has told it: the locks that its ancestors hold.
package outer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// HOLDFAST_HELD lists the locks that the ancestors of a nested holdfast hold. The nested holdfast
// must not wait for them, since they wait for it. Colons separate the elements. An element is the key
// of an exclusive lock. For other locks, the kind and a space come first: "shared KEY", or
// "permits=2/3 KEY" for two permits of three. An older holdfast wrote keys alone, which count as
// exclusive.

// A Lock is an element of HOLDFAST_HELD.
type Lock struct {
	Key            string // see the function Key; has no colons
	Shared         bool
	Permits, Limit int // of a semaphore; Limit is 0 for other locks
}

// String returns the element.
func (l Lock) String() string {
	switch {
	case l.Shared:
		return "shared " + l.Key
	case l.Limit > 0:
		return fmt.Sprintf("permits=%d/%d %s", l.Permits, l.Limit, l.Key)
	}
	return l.Key
}

// Parse reads an element. One of an unknown form is a key.
func Parse(element string) Lock {
	kind, key, _ := strings.Cut(element, " ")
	l := Lock{Key: key}
	if kind == "shared" {
		l.Shared = true
		return l
	}
	if !strings.HasPrefix(kind, "permits=") {
		return Lock{Key: element} // a key may have spaces
	}
	if n, err := fmt.Sscanf(kind, "permits=%d/%d", &l.Permits, &l.Limit); n == 2 && err == nil && l.Limit > 0 {
		return l
	}
	return Lock{Key: element}
}

// Locks returns the locks that the ancestors of this process hold.
func Locks() []Lock {
	var all []Lock
	for element := range strings.SplitSeq(os.Getenv("HOLDFAST_HELD"), ":") {
		all = append(all, Parse(element))
	}
	return all
}

// Key identifies the lock at a path of the server with an address. The same name on another server is another lock.
func Key(url, path string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(url + "#" + path)
}

// Paths returns the paths of the locks that the ancestors of this process hold on the server with an address.
func Paths(url string) (all []string) {
	for _, l := range Locks() {
		if path, ok := strings.CutPrefix(l.Key, Key(url, "")); ok {
			path, _, _ = strings.Cut(path, "#") // see the layout named:NAME
			all = append(all, strings.NewReplacer("%3A", ":", "%25", "%").Replace(path))
		}
	}
	return all
}

// Session returns the session of the holdfast run around this process, or 0. A session of another server
// does not count. It is for holdfast graph, which is to know that the lock of that session stays held while
// this process waits.
func Session(url string) int64 {
	locks := Locks()
	session, err := strconv.ParseUint(os.Getenv("HOLDFAST_SESSION"), 0, 64)
	if err != nil || !strings.HasPrefix(locks[len(locks)-1].Key, Key(url, "")) {
		return 0
	}
	return int64(session)
}
