package zklocal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A claim orders successive hosts of one path where the file lock cannot. A directory that
// replaces a removed one has a new host.lock, while the former host may still be ending the
// sessions of the removed one.
//
// The host listens on an abstract Unix socket with a name made of the directory's path. The
// kernel removes the name with the process. If a new host finds the name taken, it connects,
// which asks the other host whether its directory is still there. If it is gone, the other host
// ends its sessions and then closes the connection. If it is there, the two have different
// directories at one path, in two mount namespaces or under two roots, and the new host goes on
// without a name.
//
// Claims have no effect between network namespaces, because each has its own names.
type claim struct {
	asked     chan struct{} // holds a token when a newcomer waits for our end
	current   func() bool   // our directory is still there
	listeners []*net.UnixListener
	answering sync.WaitGroup
}

// claimPatience is the time that a newcomer waits for the host of a removed directory. If that
// host is stopped, its clients detect the removal by their own checks, so the wait is longer
// than the interval of these checks.
const claimPatience = 2*removalCheck + removalGrace

// claimPath waits until a former host of dir has ended, and takes its name. It returns an error
// only if ctx ends. After any other failure the host runs without a claim.
func claimPath(ctx context.Context, dir string, current func() bool) (*claim, error) {
	c := &claim{asked: make(chan struct{}, 1), current: current}
	wait, cancel := context.WithTimeout(ctx, claimPatience)
	defer cancel()
	for _, path := range paths(dir) {
		name := claimName(path)
		for pause := (backoff{}); ; {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
			if err == nil {
				c.listeners = append(c.listeners, l)
				break
			}
			if !errors.Is(err, unix.EADDRINUSE) || !mayEndSoon(wait, name) || !pause.pause(wait) {
				break
			}
		}
	}
	if ctx.Err() != nil {
		c.close()
		return nil, context.Cause(ctx)
	}
	for _, l := range c.listeners {
		c.answering.Go(func() { c.answer(l) })
	}
	return c, nil
}

func claimName(path string) string {
	return fmt.Sprintf("@holdfast-%x", sha256.Sum256([]byte(path)))
}

// mayEndSoon asks the owner of the name, and returns when the owner has ended. It returns false
// if there is no reason to wait for the owner, or if ctx ends.
func mayEndSoon(ctx context.Context, name string) bool {
	nc, err := dialUnix(ctx, name)
	if err != nil {
		return true // the owner is ending, or many newcomers ask
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })()
	if !isOurs(nc.(*net.UnixConn)) {
		return false
	}
	n, _ := nc.Read(make([]byte, 1))
	return n == 0 && ctx.Err() == nil
}

// isOurs reports whether a process of our user is at the other end. Every user of the machine
// can take a name.
func isOurs(nc *net.UnixConn) bool {
	raw, err := nc.SyscallConn()
	if err != nil {
		return false
	}
	ours := false
	_ = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ours = err == nil && int(peer.Uid) == os.Geteuid()
	})
	return ours
}

// answer answers newcomers that our directory is still there. If it is not, they wait until
// close. It ends with close.
func (c *claim) answer(l *net.UnixListener) {
	var waiting []*net.UnixConn
	for {
		nc, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			for _, nc := range waiting {
				nc.Close()
			}
			return
		case err != nil: // probably out of file descriptors
			time.Sleep(10 * time.Millisecond)
		case !isOurs(nc):
			nc.Close()
		case c.current():
			_, _ = nc.Write([]byte{1})
			nc.Close()
		default:
			waiting = append(waiting, nc)
			wake(c.asked)
		}
	}
}

// close releases the path for the next host.
func (c *claim) close() {
	for _, l := range c.listeners {
		l.Close()
	}
	c.answering.Wait()
}
