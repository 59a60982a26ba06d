package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/client"
)

// ThreadParam is the parameter of the URL that names the inbox.
const ThreadParam = "thread"

// Headers are those that clients send beside the usual ones.
func Headers() []string { return []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} }

// Handler serves the tools over streamable HTTP, without sessions: each request
// stands for itself and carries its own token. It is to stand behind the gates of
// a server, which check Host, Origin and the size of the body; inside carries out
// the requests of the tools. log gets the stack of a call that panicked.
func Handler(version string, log *slog.Logger) func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
	schemas := sdk.NewSchemaCache()
	h := sdk.NewStreamableHTTPHandler(
		func(r *http.Request) *sdk.Server { s, _ := r.Context().Value(serverKey{}).(*sdk.Server); return s },
		&sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
			DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, // the gates have both, as the server is configured
		})
	return func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
		// Nothing is tried again: what the server refuses to itself, it refuses.
		c := client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: inside}),
			client.WithMaxAttempts(1), client.WithRetryTimeout(time.Nanosecond))
		s := New(Options{
			Thread: r.URL.Query().Get(ThreadParam), Version: version, Schemas: schemas, Log: log,
			Dial: func() (*client.Client, error) { return c, nil },
		})
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, s)))
	}
}

type serverKey struct{}
