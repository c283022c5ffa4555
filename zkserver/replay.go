package zkserver

import (
	"fmt"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// A Commit is what a server has written to its store at once: the changes of one request or of several.
type Commit struct {
	Number uint64 // 0: the state that the journals begin with
	Zxid   int64  // of the latest change that a record names
	// Time is the latest one that a record of the commit says, in milliseconds since 1970; 0 if none does. Removals say
	// none.
	Time  int64
	Nodes []CommittedNode
	// Over are the sessions that have ended, or whose end has begun. The records do not say whether a session was closed
	// or has expired.
	Over []int64
}

// A CommittedNode is a node as it is after a commit. Of the Stat, Czxid, Mzxid, Ctime, Mtime, Version and
// EphemeralOwner count.
type CommittedNode struct {
	Path    string
	Removed bool
	Data    []byte
	Stat    zkproto.Stat
}

// Replay calls f with the state at the beginning of the journals of the store in dir, in one or several commits with the number
// 0, and with every commit since then, in order. The journals begin with the last snapshot of the store; earlier commits are
// not known. A node that was made and removed in one commit is not there. Replay changes nothing. A server may have the
// store open and keep running.
//
// Replay returns an error of f. Other errors wrap ErrDamaged, ErrFormat, or fs.ErrNotExist if there is no store. Replay is
// safe for concurrent use, and cannot be cancelled. A Commit is valid during the call of f.
func Replay(dir string, f func(*Commit) error) error {
	c := new(Commit)
	var failed error
	end := func(batch uint64) error {
		c.Number = batch
		failed = f(c)
		clear(c.Nodes)
		*c = Commit{Nodes: c.Nodes[:0], Over: c.Over[:0]}
		return failed
	}
	begun := false
	visit := store.Visitor{Session: c.session, Node: func(path string, part byte, record []byte) error {
		const most = 1000 // nodes of the state at once
		if !begun && len(c.Nodes) == most {
			if err := end(0); err != nil {
				return err
			}
		}
		return c.node(path, part, record)
	}}
	err := store.Replay(dir, visit, func(batch uint64) error {
		begun = true
		return end(batch)
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return fmt.Errorf("zkserver: read the journals in %s: %w", dir, err)
	}
	return nil
}

func (c *Commit) node(path string, part byte, record []byte) error {
	switch tree.Part(part) {
	case tree.PartChildren:
		if record == nil {
			return nil
		}
		zxid, err := tree.DecodeChildren(record)
		c.Zxid = max(c.Zxid, zxid)
		return err
	case tree.PartNode:
		n := CommittedNode{Path: path, Removed: record == nil}
		if !n.Removed {
			var err error
			if n.Data, n.Stat, err = tree.DecodeNode(record); err != nil {
				return fmt.Errorf("record of node %s: %w", path, err)
			}
			c.Zxid, c.Time = max(c.Zxid, n.Stat.Mzxid), max(c.Time, n.Stat.Mtime)
		}
		c.Nodes = append(c.Nodes, n)
	}
	return nil
}

func (c *Commit) session(id int64, record []byte) error {
	over := record == nil
	if !over {
		sess, err := decodeSession(id, record)
		if err != nil {
			return err
		}
		over = sess.ending
	}
	if over {
		c.Over = append(c.Over, id)
	}
	return nil
}
