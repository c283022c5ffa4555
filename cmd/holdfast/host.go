package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holdfast/internal/watchdog"
)

// The detached host of a file:// store: a process of its own, so that stopping or killing
// one that holds a lock harms nobody else, and short runs do not hand the store around. See
// becomeNeutral for what it does not inherit.

const (
	hostLinger  = "10s"
	hostLogName = "host.log"
	maxHostLog  = 1 << 20

	// The reports of a detached serve on stdout.
	hostReady  = "ready"
	hostFailed = "failed: "
)

// hostPatience is how long startHost waits for the host to say that it is ready, or that it
// cannot be. A host that opens a large store takes longer: zklocal waits on.
const hostPatience = 2 * time.Second

// startHost starts a detached host; zklocal calls it when the directory has none. If the host
// cannot start, the error has its reason.
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
	// The host says on a pipe how its start went: on a full disk there is no log.
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	defer say.Close()
	cmd := exec.Command(exe, "serve", watchdog.DetachedFlag, watchdog.DataDirFlag, dir, "--linger", hostLinger)
	cmd.Args[0] = "holdfast"
	cmd.Dir = string(filepath.Separator) // or it would keep a file system from being unmounted
	cmd.Env = hostEnv()
	cmd.Stdout, cmd.Stderr = say, log
	detach(cmd)
	before, _ := log.Stat()
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // or a host that is killed stays a zombie for as long as we run
	say.Close()
	_ = said.SetReadDeadline(time.Now().Add(hostPatience)) // without one, the host's end bounds the wait
	ready, reason := hostStarted(said)
	switch {
	case ready:
		return nil
	case reason == "" && before != nil:
		reason = firstLine(log.Name(), before.Size()) // it crashed
	}
	if reason == "" {
		reason = "it ended without a word"
	}
	return fmt.Errorf("start a host: %s", reason)
}

// hostStarted reads the reports of a host: the lines of serve up to "ready", or a failure. A
// host that has reported neither in time may still become ready.
func hostStarted(said *os.File) (ready bool, reason string) {
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if lines.Text() == hostReady {
			return true, ""
		}
		if text, ok := strings.CutPrefix(lines.Text(), hostFailed); ok {
			return false, text
		}
	}
	return errors.Is(lines.Err(), os.ErrDeadlineExceeded), ""
}

// firstLine is the first line that a file has behind offset.
func firstLine(name string, offset int64) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 500
	line, _, _ := bufio.NewReaderSize(io.NewSectionReader(f, offset, most), most).ReadLine()
	return strings.TrimPrefix(string(line), "holdfast: ")
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
