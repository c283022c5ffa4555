package otelholdfast

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"holdfast/zk"
)

// Trace returns hooks for the Trace of a [zk.Config]. Call it once for each client.
//
// Each request is a span of the kind client: its name is the operation, and its attributes are db.system.name
// (zookeeper), db.operation.name, holdfast.zookeeper.path, server.address, server.port and error.type. An answer about
// the state of a node is no error, for example that a node does not exist: the locks ask for that, and go on. Its span has
// db.response.status_code, ZooKeeper's number of the answer, and neither error.type nor the status Error. A request
// is traced only if its context has a span that the sampler has not dropped. So the client's own requests are not traced, and neither is the
// delete of Unlock, which no context of a caller ends. The span of the hold includes its time.
func (t *Tracer) Trace() *zk.Trace {
	var server atomic.Pointer[[]attribute.KeyValue] // the one that the client is connected to
	return &zk.Trace{
		ConnectDone: func(address string, _ time.Duration, err error) {
			if err == nil {
				attrs := serverAttributes(address)
				server.Store(&attrs)
			}
		},
		RequestDone: func(ctx context.Context, op, path string, took time.Duration, err error) {
			if caller := trace.SpanFromContext(ctx); !caller.SpanContext().IsValid() || dropped(caller) {
				return
			}
			end := time.Now()
			attrs := append(make([]attribute.KeyValue, 0, 6), semconv.DBSystemNameKey.String("zookeeper"), semconv.DBOperationName(op))
			if path != "" {
				attrs = append(attrs, attribute.String("holdfast.zookeeper.path", path))
			}
			if s := server.Load(); s != nil {
				attrs = append(attrs, *s...)
			}
			_, span := t.tracer.Start(ctx, op, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(end.Add(-took)), trace.WithAttributes(attrs...))
			if err != nil && span.IsRecording() {
				if code, ok := answer(err); ok {
					span.SetAttributes(semconv.DBResponseStatusCode(strconv.Itoa(int(code))))
				} else {
					failed(span, errorType(ctx, err), err)
				}
			}
			span.End(trace.WithTimestamp(end))
		},
	}
}

// serverAttributes are those of a server: host:port, host, or unix:///path.
func serverAttributes(address string) []attribute.KeyValue {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		return []attribute.KeyValue{semconv.ServerAddress(path)}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(address)}
	}
	attrs := []attribute.KeyValue{semconv.ServerAddress(host)}
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, semconv.ServerPort(n))
	}
	return attrs
}

// answer returns the code of an answer about the state of a node. It is part of normal work: the first Lock of a name finds no
// directory, and makes it.
func answer(err error) (zk.Code, bool) {
	code, ok := errors.AsType[zk.Code](err)
	switch code {
	case zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty:
		return code, ok
	}
	return 0, false
}

// errorTypes are values of error.type, with the errors that they stand for. The values are few, as the
// convention wants.
var errorTypes = []struct {
	name string
	err  error
}{
	{"no_auth", zk.ErrNoAuth},
	{"throttled", zk.ErrThrottled},
	{"quota_exceeded", zk.ErrQuotaExceeded},
	{"connection_loss", zk.ErrConnectionLoss},
	{"session_expired", zk.ErrSessionExpired},
	{"client_closed", zk.ErrClosed},
	{"auth_failed", zk.ErrAuthFailed},
	{"canceled", context.Canceled},
	{"timeout", context.DeadlineExceeded},
}

func errorType(ctx context.Context, err error) string {
	for _, e := range errorTypes {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	// The error of a call whose context has ended is the context's cause, which can be anything.
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "timeout"
	case ctx.Err() != nil:
		return "canceled"
	}
	return "_OTHER"
}
