package warmotel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/warmroute/warmroute"
	warmotel "github.com/warmroute/warmroute/integrations/otel"
)

func Example() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the engine gets a traceparent:", r.Header.Get("Traceparent") != "")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":96}}}`)
	}))
	defer engine.Close()

	spans := tracetest.NewInMemoryExporter() // yours goes to a collector
	telemetry, err := warmotel.New(
		warmotel.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))),
		warmotel.WithPropagator(propagation.TraceContext{}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL}}, warmroute.WithHooks(telemetry))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	client := &http.Client{Transport: telemetry.Transport(router.Transport(nil))}

	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://model/v1/chat/completions", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("X-Session-Id", "my-conversation")
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		fmt.Println(err)
		return
	}
	span := spans.GetSpans()[0]
	fmt.Println(span.Name)
	for _, a := range span.Attributes {
		switch a.Key {
		case "warmroute.outcome", "warmroute.cached_share", "gen_ai.usage.input_tokens":
			fmt.Println(a.Key, a.Value.String())
		}
	}
	// Output:
	// the engine gets a traceparent: true
	// chat
	// warmroute.outcome placed
	// gen_ai.usage.input_tokens 100
	// warmroute.cached_share 0.96
}
