package otelholdfast_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"holdfast"
	"holdfast/contrib/otelholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	recorder := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
	ctx, cfg := context.Background(), srv.Config()

	traces := otelholdfast.New() // uses the global tracer provider
	cfg.Trace = traces.Trace()
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx, span := otel.Tracer("backup").Start(ctx, "nightly")
	defer span.End()
	m := holdfast.NewMutex(c, "/jobs/nightly",
		holdfast.WithObserver(traces.Observer()),
		holdfast.WithLabels(otelholdfast.Labels(ctx, nil)))
	h, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	backUp(h.Context()) // its spans are children of holdfast.hold

	h.Unlock()
	for _, s := range recorder.Ended() {
		if strings.HasPrefix(s.Name(), "holdfast.") {
			fmt.Println(s.Name(), s.Parent().SpanID() == span.SpanContext().SpanID())
		}
	}
	// Output:
	// holdfast.wait true
	// holdfast.hold true
}

func backUp(context.Context) {}

// A Tracer with its own provider, and with links from each long wait to the holder.
func ExampleTracer() {
	srv := zktest.NewServer()
	defer srv.Close()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	traces := otelholdfast.New(otelholdfast.WithTracerProvider(provider), otelholdfast.WithLinks(srv.Client()))
	m := holdfast.NewMutex(srv.Client(), "/jobs/nightly", holdfast.WithObserver(traces.Observer()))
	err := holdfast.Do(context.Background(), m, func(context.Context) error { return nil })
	for _, s := range recorder.Ended() {
		fmt.Println(s.Name())
	}
	fmt.Println(err)
	// Output:
	// holdfast.wait
	// holdfast.hold
	// <nil>
}

// The how-to shows lines of the example.
func TestTheHowToShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], "otelholdfast.") {
			shown++
			if !strings.Contains(string(source), m[1]) {
				t.Errorf("example_test.go does not have these lines of the how-to:\n%s", m[1])
			}
		}
	}
	if shown == 0 {
		t.Error("the how-to shows no line of the example")
	}
}
