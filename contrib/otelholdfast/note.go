package otelholdfast

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"holdfast"
)

// patience is how long a wait lasts before its holder is looked for. Most waits are shorter and cost no request.
const patience = time.Second

// Labels returns labels, with the trace of ctx added, for [holdfast.WithLabels]. The node of a holder or waiter then
// says which trace it belongs to: List and holdfast ls -o json show it, and WithLinks links to it. The label
// is traceparent, and has the form of W3C Trace Context. If ctx has no trace, Labels returns labels.
//
// The labels belong to a lock value, so make the lock where the trace is known. This sends nothing:
//
//	m := holdfast.NewMutex(c, path, holdfast.WithLabels(otelholdfast.Labels(ctx, nil)))
func Labels(ctx context.Context, labels map[string]string) map[string]string {
	traced := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, traced)
	parent := traced.Get(traceparent)
	if parent == "" {
		return labels
	}
	all := map[string]string{traceparent: parent}
	maps.Copy(all, labels)
	return all
}

const traceparent = "traceparent"

// link links the span of a wait to the trace of the lock's holder.
func (t *Tracer) link(ctx context.Context, a *attempt, wait trace.Span, e holdfast.Event) {
	labels := t.holder(ctx, e)
	carrier := propagation.MapCarrier{traceparent: labels[traceparent]}
	holder := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	// The holder is ourselves if the wait has ended just now.
	if holder.IsValid() && holder.SpanID() != trace.SpanContextFromContext(a.outer).SpanID() {
		wait.AddLink(trace.Link{SpanContext: holder})
	}
}

// holder returns the labels of the node that is first in the queue. If the node cannot be read, it has none: a
// link is not worth an error.
func (t *Tracer) holder(ctx context.Context, e holdfast.Event) map[string]string {
	node := e.Path
	if e.Layout != "node" {
		layout, err := holdfast.ParseLayout(e.Layout)
		if err != nil {
			return nil
		}
		// In every layout, the leader of an election is the first in the queue. List reads the whole queue.
		leader, err := holdfast.NewElection(t.links, e.Path, holdfast.WithLayout(layout)).Leader(ctx)
		if err != nil {
			return nil
		}
		node = leader.Path
	}
	data, _, err := t.links.Get(ctx, node)
	if err != nil {
		return nil
	}
	var note struct {
		Labels map[string]string `json:"labels"`
	}
	if json.Unmarshal(data, &note) != nil {
		return nil // the data are a program's own
	}
	return note.Labels
}
