package main

import (
	"os"
	"os/exec"
	"syscall"
)

// job is a running command. Without process groups and signals only the command itself is
// killed, and without warning; a ctrl-C at the console reaches it directly.
type job struct {
	cmd     *exec.Cmd
	exited  chan struct{}
	stopped chan syscall.Signal // never used here
}

func startJob(cmd *exec.Cmd) (*job, error) {
	j := &job{cmd: cmd, exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(j.exited)
		_ = cmd.Wait() // its error is its exit code
	}()
	return j, nil
}

func (j *job) signal(os.Signal)           {}
func (j *job) terminate()                 { j.kill() }
func (j *job) kill()                      { _ = j.cmd.Process.Kill() }
func (j *job) resume()                    {}
func (j *job) pause(syscall.Signal) bool  { return false }
func (j *job) sweep(func(string, ...any)) {}
func (j *job) code() int                  { return j.cmd.ProcessState.ExitCode() }
