package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// manyEmpty is the number of empty directories from which doctor warns.
const manyEmpty = 1000

// examineLocks looks through the directory of the locks for leftovers.
func (d *examiner) examineLocks(ctx context.Context, c *zk.Client) (f findings) {
	dir := d.lockDirectory()
	found, err := see.Query{Prefix: dir + "/", Namespace: dir}.Read(ctx, c)
	switch {
	case ctx.Err() != nil:
		f.warning("locks", "give more time with --timeout", "the directory %s is too large for the time that was left", term.Cut(dir, 100))
		return f
	case err != nil:
		f.warning("locks", "log in with --auth if permissions are missing", "cannot read %s: %s", term.Cut(dir, 100), term.Cut(err.Error(), 200))
		return f
	}
	judgeLocks(&f, found, time.Now(), func(path string) string { return strings.TrimPrefix(path, dir+"/") })
	return f
}

// judgeLocks reports places that look like leftovers. name returns the user's name of a lock.
func judgeLocks(f *findings, found []see.Lock, now time.Time, name func(path string) string) {
	held, waiting, empty := 0, 0, 0
	var stuck, expired, unnamed, unreadable []string
	for _, l := range found {
		switch {
		case l.Unreadable:
			unreadable = append(unreadable, name(l.Path))
			continue
		case l.Kind == string(locks.Shards): // its queues are in the list, too
			continue
		case len(l.Queue) == 0:
			empty++
			continue
		}
		held++
		for _, e := range l.Queue {
			if !e.Held && !e.Member {
				waiting++
			}
			switch {
			case e.Detached && !e.Expires.IsZero() && now.Sub(e.Expires) > clockApart:
				expired = append(expired, name(l.Path))
			case e.Detached: // on purpose
			case e.Session == 0:
				stuck = append(stuck, e.Path)
			case e.Owner == "":
				unnamed = append(unnamed, fmt.Sprintf("%s (session %s)", name(l.Path), locks.SessionText(e.Session)))
			}
		}
	}
	if len(stuck) > 0 {
		f.problem("locks", "look at each with holdfast status; if nobody needs it, remove the node",
			"%s owned by no session, which stays until somebody removes it: %s", term.Count(len(stuck), "place"), some(stuck))
	}
	if len(expired) > 0 {
		f.warning("locks", "the next client that waits removes it; or: holdfast unlock --force",
			"%s that has expired: %s", term.Count(len(expired), "detached lock"), some(expired))
	}
	if len(unnamed) > 0 {
		f.warning("locks", "programs give their name with WithOwner, or as the data of the node",
			"%s without an owner's name: %s", term.Count(len(unnamed), "place"), some(unnamed))
	}
	if len(unreadable) > 0 {
		f.warning("locks", "log in with --auth, or let somebody with permission change the ACL", "no permission to read %s: %s", term.Count(len(unreadable), "lock"), some(unreadable))
	}
	if empty >= manyEmpty {
		f.warning("locks", "a server removes empty containers by itself; remove other nodes that nobody uses any more", "%d empty directories, which make ls slow", empty)
	}
	f.ok("locks", "%s in use, %s waiting, %s", term.Count(held, "lock"), term.Count(waiting, "client"), term.Count(empty, "empty name"))
}

// lockDirectory returns the full path of the directory of the locks.
func (d *examiner) lockDirectory() string {
	return strings.TrimSuffix(strings.TrimSuffix(d.target.ZK.Chroot, "/")+d.Namespace, "/")
}
