package zk

import (
	"net/url"
	"strings"
)

// EscapeName returns any text as one element of a path, the name of a node. It is
// url.PathEscape, except that it also escapes the dots of ".", ".." and "...": a node
// cannot have one of the first two as its name. EscapeName of "" is "".
//
// A holdfast.Tree names its nodes with EscapeName. Package holdfast/once does not: the names of its
// keys escape more.
func EscapeName(text string) string {
	if strings.Trim(text, ".") == "" {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// UnescapeName returns the text of a name that EscapeName has made. It fails if EscapeName cannot
// have made the name, because a "%" in it is not followed by two hexadecimal digits.
func UnescapeName(name string) (string, error) { return url.PathUnescape(name) }
