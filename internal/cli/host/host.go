package host

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

// The detached host of a file:// store is a process of its own. So killing a holdfast run harms no
// other user of the store, and short runs do not take over the store from each other. The host does
// not inherit the settings of the job that starts it: see BecomeNeutral.

const (
	// LogName is the name of the host's log in the directory of the store.
	LogName = "host.log"

	// Ready is the line of a detached serve on stdout when it serves.
	Ready = "ready"
	// Failed begins the line of a detached serve that cannot serve. The reason follows.
	Failed = "failed: "
)

const (
	linger = "10s"
	maxLog = 1 << 20
)

// patience is how long Start waits for the host to report that it is ready or has failed. A
// host with a large store takes longer; zklocal goes on waiting.
const patience = 2 * time.Second

// Start starts a detached host. zklocal calls it if the directory has none. If the host cannot
// start, the error has the reason.
func Start(dir string) error {
	exe, err := program()
	if err != nil {
		return err
	}
	log, err := openLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	// The host reports its start on a pipe, because a full disk has no room for a log.
	said, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	defer say.Close()
	cmd := exec.Command(exe, "serve", watchdog.DetachedFlag, watchdog.DataDirFlag, dir, "--linger", linger)
	cmd.Args[0] = "holdfast"
	cmd.Dir = string(filepath.Separator) // any other directory could not be unmounted
	cmd.Env = environ()
	cmd.Stdout, cmd.Stderr = say, log
	detach(cmd)
	before, _ := log.Stat()
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // or a killed host stays a zombie while this process runs
	say.Close()
	_ = said.SetReadDeadline(time.Now().Add(patience)) // if it fails, the wait ends with the host
	ready, reason := awaitReady(said)
	switch {
	case ready:
		return nil
	case reason == "" && before != nil:
		reason = firstLine(log.Name(), before.Size()) // it crashed
	}
	if reason == "" {
		reason = "the host process ended without a message"
	}
	return fmt.Errorf("start a host: %s", reason)
}

// program returns the path of holdfast. It is this program, or, for holdfast-NAME, the one in its directory or in the PATH.
func program() (string, error) {
	exe, err := os.Executable()
	if err != nil || !strings.HasPrefix(filepath.Base(exe), "holdfast-") {
		return exe, err
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(exe), "holdfast")); err == nil {
		return path, nil
	}
	return exec.LookPath("holdfast")
}

// awaitReady reads the output of a host up to "ready" or a failure. A host that has reported neither
// at the deadline may still become ready.
func awaitReady(said *os.File) (ready bool, reason string) {
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if lines.Text() == Ready {
			return true, ""
		}
		if text, ok := strings.CutPrefix(lines.Text(), Failed); ok {
			return false, text
		}
	}
	return errors.Is(lines.Err(), os.ErrDeadlineExceeded), ""
}

// firstLine returns the first line of a file after offset.
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

// environ returns the environment of a host. The host outlives the job that starts it and serves other
// jobs, so it gets none of the job's secrets.
func environ() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "SystemRoot", "USERPROFILE", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// openLog opens the log of the host in dir, and truncates it if it is too long.
func openLog(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LogName), os.O_WRONLY|os.O_CREATE|os.O_APPEND|openNoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(LogName + " is not a file")
	}
	if err == nil && info.Size() > maxLog {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
