package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
)

// serveLogFlags are the flags for the log on stderr.
type serveLogFlags struct {
	level  logLevel
	format term.LogFormat
}

func (l *serveLogFlags) register(f *pflag.FlagSet) {
	l.format = "text"
	f.Var(&l.level, "log-level", "lowest level to log: debug, info, warn or error")
	f.Var(&l.format, "log-format", "format of the log on stderr: text or json")
}

func (l *serveLogFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.level.Level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// A logLevel is a flag; its zero value is info.
type logLevel struct{ slog.Level }

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func (l *logLevel) Set(s string) error {
	level, known := logLevels[s]
	if !known {
		return fmt.Errorf("want debug, info, warn or error")
	}
	l.Level = level
	return nil
}

func (l *logLevel) String() string {
	for name, level := range logLevels {
		if level == l.Level {
			return name
		}
	}
	return l.Level.String()
}

func (*logLevel) Type() string { return "level" }
