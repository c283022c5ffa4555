package hold

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/reserve"
	"holdfast/zk"
)

// WaitFlags are the flags of the subcommands that acquire a lock.
type WaitFlags struct {
	Try  bool
	Wait time.Duration
	Why  string

	onDeadlock deadlock.Flag
}

func (f *WaitFlags) register(cmd *cobra.Command) {
	f.RegisterTry(cmd, "the lock is held. (For a lock that a program only keeps, wait a second at most.)")
	term.DurationVar(cmd.Flags(), &f.Wait, "wait", "w", 0, "wait at most this long, then exit 75; 0 is --try (default: no limit, not even if no server answers)")
	cmd.Flags().StringVar(&f.Why, "why", "", "reason for holding the lock, shown to waiters and in ls and status")
	f.onDeadlock.Register(cmd, "gives up and exits with 35")
}

// RegisterTry registers -n. busy says what there is to wait for.
func (f *WaitFlags) RegisterTry(cmd *cobra.Command, busy string) {
	cmd.Flags().BoolVarP(&f.Try, "try", "n", false, "do not wait: exit 75 if "+busy+" If no server answers, give up after 15s, or a shorter session timeout")
}

// A Plan is what a command line asks for: one lock, or several as one, how long to wait for it, and as whom.
type Plan struct {
	Flags   *conn.Flags
	Target  conn.Target
	Command string // the subcommand
	Name    string // as the user gave it
	Path    string
	Who     string // in the queue
	Labels  map[string]string
	Metrics *Metrics // of --metrics; nil without
	// Locker makes the lock, if it is none of those that the flags of run and lock ask for.
	Locker func(*zk.Client) holdfast.Locker

	also     []string // paths of the locks of --also
	place    place    // in a tree
	kind     KindFlags
	why      string
	try      bool
	bounded  bool // the wait ends after wait
	wait     time.Duration
	once     onceFlags
	minHold  time.Duration
	room     roomFlags
	detached detachedFlags
	yields   bool // the wait gives up if it is the victim of a deadlock
}

// NewPlan returns the plan for the lock that the command line names.
func NewPlan(g *conn.Flags, cmd *cobra.Command, f *WaitFlags, kind *KindFlags, name string) (*Plan, error) {
	given := cmd.Flags().Changed("wait")
	switch {
	case f.Wait < 0:
		return nil, term.Usage("give a time such as 30s, or 0 to try once", "--wait %v is negative", f.Wait)
	case f.Try && given && f.Wait > 0:
		return nil, term.Usage("leave out --try or --wait", "--try and --wait %v do not go together", f.Wait)
	}
	if f.onDeadlock.Fail() && kind.node {
		return nil, term.Usage("leave out one of them", "--on-deadlock fail and --node do not go together: waiters for a node have no place that others could see")
	}
	if err := kind.check(cmd); err != nil {
		return nil, err
	}
	find := g.PlainPath
	if kind.tree {
		find = g.LockPath // see place
	}
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	var also []string
	for _, name := range kind.also {
		p, err := g.PlainPath(name)
		if err != nil {
			return nil, err
		}
		also = append(also, p)
	}
	t, err := g.Target()
	if err != nil {
		return nil, err
	}
	place, path, err := kind.place(name, path)
	if err != nil {
		return nil, err
	}
	return &Plan{
		Flags: g, Target: t, Command: cmd.Name(), Name: name, Path: path, place: place, also: also, kind: *kind, why: f.Why,
		try: f.Try || given && f.Wait == 0, bounded: given && f.Wait > 0, wait: f.Wait,
		yields: f.onDeadlock.Fail(),
	}, nil
}

func (p *Plan) paths() []string {
	return append([]string{p.Path}, slices.Concat(p.place.above, p.also)...)
}

// called returns the name of one of this command's locks.
func (p *Plan) called(path string) string {
	if path == p.Path {
		return p.Name // as the user gave it
	}
	if p.kind.tree {
		return p.treeName(path)
	}
	return p.Flags.LockName(path)
}

// awaited names a lock in a message about the wait. Its holder can be a program of another library.
func (p *Plan) awaited(path string) string {
	name := term.Escape(p.called(path))
	if layout := p.kind.Layout.Name; layout != "curator" && layout != "" {
		name += " (layout " + term.Escape(layout) + ")"
	}
	return name
}

// treeName returns the name of an ancestor of the lock in its tree, from the path of the ancestor's queue.
func (p *Plan) treeName(path string) string {
	below, err := zk.UnescapeName(strings.TrimPrefix(path, p.place.root+"/"))
	if err != nil {
		return p.Flags.LockName(path)
	}
	return strings.TrimSuffix(p.Flags.LockName(p.place.root)+below, "/")
}

// failed turns an error of a lock into one with an exit code and a hint.
func (p *Plan) failed(err error) error {
	name, reason := p.Name, err
	if lock, ok := errors.AsType[*holdfast.Error](err); ok {
		name, reason = p.called(lock.Path), lock.Err
		if p.kind.tree {
			name = p.Name
		}
	}
	switch {
	case errors.Is(err, holdfast.ErrLimit):
		return term.Misconfigured("give the same --of as all other users, or --resize to change the number for all of them", "%s: %w", name, reason)
	case madeRoom(err):
		return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %w", name, reason)}
	case errors.Is(err, holdfast.ErrKind):
		return term.Misconfigured("", "%s: %w", name, reason) // the error says what to do
	case errors.Is(err, holdfast.ErrLayout), errors.Is(err, zk.ErrBadArguments):
		return term.Usage("", "%s: %w", name, reason)
	}
	return p.Target.Explain(err)
}

// reservedOr returns the error of a lock that --min-hold keeps, or otherwise what busy returns.
func (p *Plan) reservedOr(err error, busy func() error) error {
	r, ok := errors.AsType[*reserve.Reservation](err)
	if !ok {
		return busy()
	}
	return p.busy(p.called(r.Path), show.Reservation(r))
}

// busy returns the error of a lock that is not free. what says why.
func (p *Plan) busy(name, what string) error {
	if p.bounded {
		what = fmt.Sprintf("timed out after %s: %s", duration.Text(p.wait), what)
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %s", name, what)}
}
