//go:build unix

package peers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// A Process is a command that was started by [Start].
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // what Wait said; written before done is closed
}

// Start starts cmd, so that it does not outlive this process, and reaps it when it
// ends.
//
// The death signal of Linux fires when the thread that started the process ends,
// not when the whole parent does, and Go ends threads as it likes. So the
// goroutine that starts the process keeps its thread until the process is gone.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithParent(cmd)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("peers: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Pid is the process's id, which may be another's once Done is closed.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed once the process has ended and been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended, as exec.Cmd.Wait does, once Done is closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Run is cmd.Run for a command that must not outlive this process.
func Run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(cmd)
	return cmd.Run()
}

// Signal sends sig to this process. It cannot hit another one that got the same
// pid: os.Process knows whether it has been reaped.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("peers: send %v to process %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}

// Kill sends SIGKILL and waits until the process is gone, so that its port and
// its files are free when Kill returns. A process that has ended, or that never
// started (nil), is no error.
func (p *Process) Kill() error {
	if p == nil {
		return nil
	}
	err := p.Signal(syscall.SIGKILL)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// openLog opens a peer's log for another run of it.
func openLog(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// tail copies the end of a peer's log to w.
func tail(w io.Writer, dir string) {
	const most = 16 << 10
	f, err := os.Open(filepath.Join(dir, "log"))
	if err != nil {
		fmt.Fprintln(w, err)
		return
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		f.Seek(max(0, size-most), io.SeekStart)
	}
	io.Copy(w, f)
}
