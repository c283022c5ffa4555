package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// clientLogFlags are the flags for the messages of the client commands on stderr.
type clientLogFlags struct {
	format  logFormat
	verbose bool
}

func (l *clientLogFlags) register(f *pflag.FlagSet) {
	l.format = "text"
	f.Var(&l.format, "log-format", "format of the messages on stderr: text or json, one object for each line")
	f.BoolVarP(&l.verbose, "verbose", "v", false, "also report the server and where it comes from, the session, the acquire and the release")
}

// The levels of messages, as in the log of serve.
const (
	levelInfo  = "INFO"
	levelWarn  = "WARN"
	levelError = "ERROR"
)

type messageDocument struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Msg   string    `json:"msg"`
	Hint  string    `json:"hint,omitempty"`
}

// message returns the line of a message, or two lines if there is a hint and the format is text.
func (f logFormat) message(level, text, hint string) string {
	if f == "json" {
		line, _ := json.Marshal(messageDocument{time.Now().UTC(), level, text, hint}) // of text, which cannot fail
		return string(line) + "\n"
	}
	if level == levelWarn {
		text = "warning: " + text
	}
	if hint != "" {
		text += "\nholdfast: hint: " + hint
	}
	return "holdfast: " + text + "\n"
}

// warn prints a warning on stderr.
func (l *clientLogFlags) warn(cmd *cobra.Command, format string, args ...any) {
	_, _ = io.WriteString(cmd.ErrOrStderr(), l.format.message(levelWarn, fmt.Sprintf(format, args...), ""))
}

// info prints a message on stderr.
func (l *clientLogFlags) info(cmd *cobra.Command, format string, args ...any) {
	_, _ = io.WriteString(cmd.ErrOrStderr(), l.format.message(levelInfo, fmt.Sprintf(format, args...), ""))
}

// newSayer returns a sayer that prints to w.
func (l *clientLogFlags) newSayer(w io.Writer) *sayer {
	s := newSayer(w)
	s.log = *l
	return s
}

// newLiveSayer returns a sayer that shows progress in place if w is a terminal.
func (l *clientLogFlags) newLiveSayer(w io.Writer) *sayer {
	var on *screen
	if f, ok := w.(*os.File); ok && l.format != "json" {
		on = screenOf(f)
	}
	s := newQueue(on)
	s.log = *l
	go s.deliver(w, nil)
	return s
}

type logFormat string

func (f *logFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("want text or json")
	}
	*f = logFormat(s)
	return nil
}

func (f *logFormat) String() string { return string(*f) }

func (*logFormat) Type() string { return "format" }
