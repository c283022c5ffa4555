package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/duration"
)

// LogFlags are the flags for the messages of the client commands on stderr.
type LogFlags struct {
	Format  LogFormat
	Verbose bool
}

// Register adds the flags.
func (l *LogFlags) Register(f *pflag.FlagSet) {
	l.Format = "text"
	f.Var(&l.Format, "log-format", "format of the messages on stderr: text or json, one object for each line")
	f.BoolVarP(&l.Verbose, "verbose", "v", false, "also report the server and where it comes from, the session, the acquire and the release")
}

// The levels of messages, as in the log of serve.
const (
	levelInfo  = "INFO"
	levelWarn  = "WARN"
	levelError = "ERROR"
)

// A MessageDocument is a message with --log-format json.
type MessageDocument struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Msg   string    `json:"msg"`
	Hint  string    `json:"hint,omitempty"`
}

// message returns the line of a message, or two lines if there is a hint and the format is text.
func (f LogFormat) message(level, text, hint string) string {
	if f == "json" {
		line, _ := json.Marshal(MessageDocument{time.Now().UTC(), level, text, hint}) // of text, which cannot fail
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

// Warn prints a warning on stderr.
func (l *LogFlags) Warn(cmd *cobra.Command, format string, args ...any) {
	_, _ = io.WriteString(cmd.ErrOrStderr(), l.Format.message(levelWarn, fmt.Sprintf(format, duration.InMessage(args)...), ""))
}

// Info prints a message on stderr.
func (l *LogFlags) Info(cmd *cobra.Command, format string, args ...any) {
	_, _ = io.WriteString(cmd.ErrOrStderr(), l.Format.message(levelInfo, fmt.Sprintf(format, duration.InMessage(args)...), ""))
}

// NewSayer returns a sayer that prints to w.
func (l *LogFlags) NewSayer(w io.Writer) *Sayer {
	s := NewSayer(w)
	s.Log = *l
	return s
}

// NewLiveSayer returns a sayer that shows progress in place if w is a terminal.
func (l *LogFlags) NewLiveSayer(w io.Writer) *Sayer {
	var on *Screen
	if f, ok := w.(*os.File); ok && l.Format != "json" {
		on = screenOf(f)
	}
	s := NewQueue(on)
	s.Log = *l
	go s.Deliver(w, nil)
	return s
}

// LogFormat is --log-format: text or json.
type LogFormat string

// Set accepts text and json.
func (f *LogFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("want text or json")
	}
	*f = LogFormat(s)
	return nil
}

// String returns the value of the flag.
func (f *LogFormat) String() string { return string(*f) }

// Type returns the name of the value in the help.
func (*LogFormat) Type() string { return "format" }
