package otelholdfast

import (
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// A current is the span in the context of an attempt: first the span of the wait, then that of the hold. The
// Hold's Context descends from the context of the wait, which is made before there is a hold. With the span of
// the wait in it, all work under the lock would be part of the wait.
//
// The two spans belong to the Tracer, so End does nothing.
type current struct {
	embedded.Span
	span atomic.Pointer[trace.Span]
}

func (c *current) get() trace.Span                       { return *c.span.Load() }
func (c *current) set(s trace.Span)                      { c.span.Store(&s) }
func (c *current) End(...trace.SpanEndOption)            {}
func (c *current) IsRecording() bool                     { return c.get().IsRecording() }
func (c *current) SpanContext() trace.SpanContext        { return c.get().SpanContext() }
func (c *current) SetStatus(code codes.Code, d string)   { c.get().SetStatus(code, d) }
func (c *current) SetName(name string)                   { c.get().SetName(name) }
func (c *current) SetAttributes(a ...attribute.KeyValue) { c.get().SetAttributes(a...) }
func (c *current) TracerProvider() trace.TracerProvider  { return c.get().TracerProvider() }
func (c *current) AddLink(l trace.Link)                  { c.get().AddLink(l) }

func (c *current) AddEvent(name string, opts ...trace.EventOption) { c.get().AddEvent(name, opts...) }
func (c *current) RecordError(err error, opts ...trace.EventOption) {
	c.get().RecordError(err, opts...)
}
