package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/client"
)

// ThreadParam is the query parameter that names the inbox.
const ThreadParam = "thread"

// Headers returns the names of MCP's own request headers.
func Headers() []string { return []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} }

// Handler serves the tools over streamable HTTP without sessions: each request carries its own
// token. The caller must put the server's checks of Host, Origin and body size in front of it;
// inside executes the internal requests of the tools. log receives the stack of a call that
// panicked.
func Handler(version string, log *slog.Logger) func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
	schemas := sdk.NewSchemaCache()
	h := sdk.NewStreamableHTTPHandler(
		func(r *http.Request) *sdk.Server { s, _ := r.Context().Value(serverKey{}).(*sdk.Server); return s },
		&sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
			DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, // the server checks both
		})
	return func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
		// The client does not retry, because an error of the server's own API is final.
		c := client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: inside}),
			client.WithMaxAttempts(1), client.WithRetryTimeout(time.Nanosecond))
		o := Options{
			Thread: r.URL.Query().Get(ThreadParam), Version: version, Schemas: schemas, Log: log,
			Dial: func() (*client.Client, error) { return c, nil },
		}
		if isEventStream(r) {
			serveEventStream(w, r, o)
			return
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, New(o))))
	}
}

type serverKey struct{}
