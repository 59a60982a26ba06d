package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeWith is [Serve] with other times for streams of events.
func ServeWith(ctx context.Context, o Options, over sdk.Transport, every, life time.Duration) error {
	return serveStreams(ctx, o, over, &eventStreams{every: every, life: life})
}
