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

// A claim orders the hosts of one path where the file lock cannot: a directory that is made
// anew has a new host.lock, while the host of the removed one may still be ending the
// sessions there.
//
// The host listens on an abstract Unix socket whose name is made of the directory's path.
// The kernel removes the name with the process. A process that is about to host the path
// finds the name taken, connects, and asks by that whether the directory of the other host
// is still there. If it is not, the other host ends its sessions and then closes the
// connection. If it is there, the two have different directories at one path, in two mount
// namespaces or behind two roots, and the newcomer goes on without a name.
//
// The name orders nothing between network namespaces, since each has its own names.
type claim struct {
	asked     chan struct{} // holds a token when a newcomer waits for our end
	current   func() bool   // our directory is still there
	listeners []*net.UnixListener
	answering sync.WaitGroup
}

// claimPatience is how long a newcomer waits for the host of a removed directory. If that
// host is stopped, its clients find out by their own looks at the directory, so the wait is
// longer than the time between two looks.
const claimPatience = 2*removalCheck + removalGrace

// claimPath waits for a former host of dir to end, and takes its place. The error is that
// of ctx; whatever else goes wrong, the host has no claim and hosts all the same.
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

// mayEndSoon asks the owner of the name, and returns when that has ended. It returns false
// if there is no reason to wait for the owner, or if ctx ends.
func mayEndSoon(ctx context.Context, name string) bool {
	nc, err := dialUnix(ctx, name)
	if err != nil {
		return true // it ends just now, or many ask
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })()
	if !isOurs(nc.(*net.UnixConn)) {
		return false
	}
	n, _ := nc.Read(make([]byte, 1))
	return n == 0 && ctx.Err() == nil
}

// isOurs reports whether a process of our user is at the other end. Everybody on the
// machine can take a name.
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

// answer tells newcomers that our directory is still there. If it is not, they wait until
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
		case err != nil: // out of file descriptors, most likely
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

// close gives the path to the next host.
func (c *claim) close() {
	for _, l := range c.listeners {
		l.Close()
	}
	c.answering.Wait()
}
