package zkproto

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrInvalidPath is wrapped by every error of ValidatePath.
var ErrInvalidPath = errors.New("invalid path")

// ValidatePath applies ZooKeeper's rules (org.apache.zookeeper.common.PathUtils). A path starts
// with "/", and only the root ends with it. No component is empty, "." or "..". The path has none
// of the characters that Java's check of UTF-16 units rejects: controls, private use, surrogates
// (so everything above U+FFFF) and U+FFF0 to U+FFFF.
func ValidatePath(path string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w %q: %s", ErrInvalidPath, path, fmt.Sprintf(format, args...))
	}
	switch {
	case path == "":
		return bad("it is empty")
	case path[0] != '/':
		return bad("it does not start with /")
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return bad("it ends with /")
	}
	if plain(path) {
		return nil
	}
	for rest := path[1:]; ; {
		name, after, more := strings.Cut(rest, "/")
		switch name {
		case "":
			return bad("it has an empty component")
		case ".", "..":
			return bad("it has the component %q; relative paths are not allowed", name)
		}
		if !more {
			break
		}
		rest = after
	}
	for i, c := range path {
		switch {
		case c == utf8.RuneError:
			return bad("byte %d is not UTF-8 text that ZooKeeper accepts", i)
		case c <= 0x1f, c >= 0x7f && c <= 0x9f, c >= 0xd800 && c <= 0xf8ff, c >= 0xfff0:
			return bad("character %U at byte %d is not allowed", c, i)
		}
	}
	return nil
}

// plain reports whether path is valid at first sight, as most paths are: printable ASCII, and no
// slash is followed by another slash or a dot. The caller has checked the first and the last byte.
func plain(path string) bool {
	slash := false
	for i := range len(path) {
		c := path[i]
		if c < 0x20 || c >= 0x7f || slash && (c == '/' || c == '.') {
			return false
		}
		slash = c == '/'
	}
	return true
}
