package term

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// ServerLog are the flags for the log on stderr.
type ServerLog struct {
	Level  LogLevel
	Format LogFormat
}

// Register adds the flags to f.
func (l *ServerLog) Register(f *pflag.FlagSet) {
	l.Format = "text"
	f.Var(&l.Level, "log-level", "lowest level to log: debug, info, warn or error")
	f.Var(&l.Format, "log-format", "format of the log on stderr: text or json")
}

// Logger returns a logger that writes to w.
func (l *ServerLog) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level.Level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// A LogLevel is a flag; its zero value is info.
type LogLevel struct{ slog.Level }

// LogLevels has the levels by their names.
var LogLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Set accepts the name of a level.
func (l *LogLevel) Set(s string) error {
	level, known := LogLevels[s]
	if !known {
		return fmt.Errorf("want debug, info, warn or error")
	}
	l.Level = level
	return nil
}

func (l *LogLevel) String() string {
	for name, level := range LogLevels {
		if level == l.Level {
			return name
		}
	}
	return l.Level.String()
}

// Type returns the name of the value in the help.
func (*LogLevel) Type() string { return "level" }
