package hold

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"holdfast"
	"holdfast/internal/cli/outer"
	"holdfast/internal/locks"
)

// Environment returns the variables that holdfast adds to the command's environment.
func (p *Plan) Environment(h *holdfast.Hold) []string {
	return append([]string{
		"HOLDFAST_LOCK=" + p.Name,
		"HOLDFAST_TOKEN=" + strconv.FormatInt(p.token(h), 10),
		"HOLDFAST_TOKENS=" + p.tokens(h),
		"HOLDFAST_SESSION=" + locks.SessionText(h.SessionID()),
		"HOLDFAST_HELD=" + p.heldText(),
		"HOLDFAST_OWNER=" + p.Who,
		"HOLDFAST_SERVER=" + p.Target.URL, // a URL has no password
	}, p.slotVariables(h)...)
}

// token returns the token of LOCK itself, also with --also.
func (p *Plan) token(h *holdfast.Hold) int64 {
	if p.kind.tree {
		return h.Token() // the root's, which grows from holder to holder
	}
	return tokenOf(h, p.Path)
}

// tokenOf returns the token of the lock at path, one of the locks that h holds.
func tokenOf(h *holdfast.Hold, path string) int64 {
	for _, t := range h.Tokens() {
		if t.Path == path {
			return t.Token
		}
	}
	return h.Token()
}

// tokens returns the tokens of all locks in the order of the command line.
func (p *Plan) tokens(h *holdfast.Hold) string {
	if p.kind.tree {
		return strconv.FormatInt(h.Token(), 10)
	}
	var text []string
	for _, path := range p.paths() {
		text = append(text, strconv.FormatInt(tokenOf(h, path), 10))
	}
	return strings.Join(text, " ")
}

// slotVariables returns HOLDFAST_SLOT and HOLDFAST_SLOTS for the command, or nothing.
func (p *Plan) slotVariables(h *holdfast.Hold) []string {
	if !p.kind.slot {
		return nil
	}
	return []string{"HOLDFAST_SLOT=" + strconv.Itoa(h.Slot()), "HOLDFAST_SLOTS=" + slotsText(h, " ")}
}

// slotsText returns the numbers of the slots that h holds.
func slotsText(h *holdfast.Hold, separator string) string {
	var text []string
	for _, number := range h.Slots() {
		text = append(text, strconv.Itoa(number))
	}
	return strings.Join(text, separator)
}

// held returns the lock at path as an element of HOLDFAST_HELD. The key has the server, since the same
// name on another server is another lock. With the layout named:NAME, the key has NAME.
func (p *Plan) held(path string) outer.Lock {
	if name := p.kind.Layout.Name; strings.HasPrefix(name, "named:") {
		path += "#" + name
	}
	h := outer.Lock{
		Key:    outer.Key(p.Target.URL, path),
		Shared: p.kind.shared || slices.Contains(p.place.above, path),
	}
	if p.kind.limit > 0 {
		h.Permits, h.Limit = p.kind.permits, p.kind.limit
	}
	return h
}

// heldText returns the value of HOLDFAST_HELD for the command.
func (p *Plan) heldText() string {
	var all []string
	if given := os.Getenv("HOLDFAST_HELD"); given != "" {
		all = append(all, given)
	}
	for _, path := range p.paths() {
		all = append(all, p.held(path).String())
	}
	return strings.Join(all, ":")
}
