package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// The detached host of a file:// store: a process of its own, so that stopping or killing
// one that holds a lock harms nobody else, and short runs do not hand the store around.

const (
	// detachedFlag marks a serve that startHost has started.
	detachedFlag = "--detached"
	dataDirFlag  = "--data-dir"
	hostLinger   = "10s"
	hostLogName  = "host.log"
	maxHostLog   = 1 << 20
)

// startHost is what zklocal calls when the directory has no host. It does not wait until
// the host is up: zklocal does.
func startHost(dir string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := openHostLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(exe, "serve", detachedFlag, dataDirFlag, dir, "--linger", hostLinger)
	cmd.Args[0] = "holdfast"
	cmd.Dir = string(filepath.Separator) // or it would keep a file system from being unmounted
	cmd.Env = hostEnv()
	cmd.Stderr = log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // or a host that is killed stays a zombie for as long as we run
	return nil
}

// hostEnv is the environment of a process that outlives its starter and serves others: no
// secrets of the job that happened to start it.
func hostEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "SystemRoot", "USERPROFILE", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// openHostLog opens the file for what the host has to say, which nobody reads unless
// something is wrong.
func openHostLog(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, hostLogName), os.O_WRONLY|os.O_CREATE|os.O_APPEND|openNoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(hostLogName + " is not a file")
	}
	if err == nil && info.Size() > maxHostLog {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
