// Package term is how the commands meet their user: tables and JSON on standard output, messages and progress on standard
// error, colors, durations, and exit codes.
package term
