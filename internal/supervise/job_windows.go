package supervise

import (
	"os"
	"os/exec"
	"syscall"
)

// A job is a running command. Without process groups and signals only the command itself is
// killed, and without a warning. A ctrl-C at the console reaches it directly.
type job struct {
	cmd     *exec.Cmd
	pid     int
	exited  chan struct{}
	stopped chan syscall.Signal // never used here
}

func startJob(c Command, _ *lostPipe) (*job, error) {
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	j := &job{cmd: cmd, exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	j.pid = cmd.Process.Pid
	go func() {
		defer close(j.exited)
		_ = cmd.Wait() // its error is its exit code
	}()
	return j, nil
}

func (j *job) signal(os.Signal)                   {}
func (j *job) terminate(syscall.Signal)           { j.kill() }
func (j *job) kill()                              { _ = j.cmd.Process.Kill() }
func (j *job) resume(syscall.Signal)              {}
func (j *job) freeze(func(string, ...any))        {}
func (j *job) thaw()                              {}
func (j *job) leftovers() (bool, <-chan struct{}) { return false, nil }
func (j *job) sweep(func(string, ...any), bool)   {}
func (j *job) code() int                          { return j.cmd.ProcessState.ExitCode() }
func (j *job) killer() int                        { return 0 }
func (j *job) waitStatus() syscall.WaitStatus     { return syscall.WaitStatus{} }

// A lostPipe does nothing: a process inherits no descriptors by number here.
type lostPipe struct{}

func newLostPipe() (*lostPipe, error) { return nil, nil }
func (*lostPipe) started()            {}
func (*lostPipe) end()                {}

// terminal does nothing: there is no job control here.
type terminal struct{}

func openTerminal() *terminal                            { return nil }
func (*terminal) lender() (int, bool)                    { return -1, false }
func (*terminal) lend(int, int)                          {}
func (*terminal) pause(syscall.Signal, int, func()) bool { return false }
func (*terminal) takeBack(int) bool                      { return false }
func (*terminal) end(int, syscall.WaitStatus) bool       { return false }
func (*terminal) close()                                 {}
