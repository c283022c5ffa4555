// Package who is the name that a client of the command line gives itself in the queues: --who and --label.
package who

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// Flags are the flags that say who acquires a lock.
type Flags struct {
	who    string
	labels []string
}

// Bounds of what a user can add to a lock's node, which everybody who lists the queue reads.
const (
	maxWho    = 256
	maxLabels = 16
	maxLabel  = 256 // of KEY=VALUE
)

// Register gives a command the flags.
func (f *Flags) Register(cmd *cobra.Command) {
	f.RegisterName(cmd, "name of the holder, shown to waiters and in ls and status")
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, "add the label KEY=VALUE, shown in the JSON of ls and status; repeatable, at most 16 labels of 256 bytes")
}

// RegisterName gives a command --who alone. what says what the name is.
func (f *Flags) RegisterName(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.who, "who", "", what+", at most 256 bytes (default user@host:pid)")
}

// Read checks the flags. It returns the name of this process in the queues, and its labels.
func (f *Flags) Read() (owner string, labels map[string]string, err error) {
	switch {
	case len(f.who) > maxWho:
		return "", nil, term.Usage("give a shorter name", "--who %q… is too long: %d bytes; want at most %d", term.Cut(f.who, 40), len(f.who), maxWho)
	case !utf8.ValidString(f.who):
		return "", nil, term.Usage("", "--who %q is not UTF-8", term.Cut(f.who, 40))
	case len(f.labels) > maxLabels:
		return "", nil, term.Usage("", "%d labels: want at most %d", len(f.labels), maxLabels)
	}
	for _, label := range f.labels {
		key, value, ok := strings.Cut(label, "=")
		switch {
		case !ok || key == "":
			return "", nil, term.Usage("give --label KEY=VALUE, such as --label team=billing", "--label %q has no key and value", term.Cut(label, 40))
		case len(label) > maxLabel:
			return "", nil, term.Usage("", "--label %q… is too long: %d bytes; want at most %d", term.Cut(label, 40), len(label), maxLabel)
		case strings.IndexFunc(key, func(r rune) bool { return !labelRune(r) }) >= 0:
			return "", nil, term.Usage("use letters, digits and ._-/ in the key", "--label %q: the key has another character", term.Cut(label, 40))
		case !utf8.ValidString(value):
			return "", nil, term.Usage("", "--label %q: the value is not UTF-8", term.Cut(label, 40))
		}
		if _, twice := labels[key]; twice {
			return "", nil, term.Usage("", "--label %s is given twice", key)
		}
		if labels == nil {
			labels = make(map[string]string)
		}
		labels[key] = value
	}
	return cmp.Or(f.who, conn.Owner()), labels, nil
}

func labelRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || slices.Contains([]rune("._-/"), r)
}
