// Package daemon is the part of holdfast serve around the server: the HTTP server of --admin with its
// metrics and health checks, and reports to systemd (sd_notify). It knows neither flags nor locks.
package daemon
