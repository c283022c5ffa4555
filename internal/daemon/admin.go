package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"holdfast/zkserver"
)

const (
	// alivePatience is longer than the longest batch of a healthy server.
	alivePatience = 2 * time.Second
	// readyPatience is longer than a sync on a busy disk.
	readyPatience = 5 * time.Second
)

// NewAdmin returns the HTTP server of --admin. Without insecure, it answers requests
// for local host names only. The caller serves and closes it.
func NewAdmin(server *zkserver.Server, page *Metrics, insecure bool, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	mux.HandleFunc("GET /healthz", answers(alivePatience, server.Alive))
	mux.HandleFunc("GET /readyz", answers(readyPatience, server.Ready))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	var handler http.Handler = mux
	if !insecure {
		handler = OnlyLocalNames(mux)
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a profile takes 30 s by default
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// answers responds 200 if question returns nil in time, else 503 with the error.
func answers(patience time.Duration, question func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), patience, fmt.Errorf("no answer within %v", patience))
		defer cancel()
		if err := question(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// OnlyLocalNames refuses requests for other host names. A web page whose host name resolves to
// 127.0.0.1 could otherwise make a browser on this machine send requests here (DNS rebinding).
func OnlyLocalNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "only for localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
