package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/client"
	"mailroom/protocol/mcp"
)

func (m *Main) mcpCommand() *cobra.Command {
	var thread string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Let an agent read its mail and write to others by tool calls",
		Long: `Let an agent read its mail and write to others by tool calls.

This is a server of the Model Context Protocol over standard input and output, to
be started by the agent's program; put this command into its configuration. The
tools read the messages of one thread, the inbox, which is made at the first look.

It needs a running server, found as by the other commands, and while that is away
the tools say so. The same tools are at /mcp of the server itself.`,
		Example: `  codex mcp add mailroom -- mailroom mcp --thread inbox-of-codex
  claude mcp add mailroom -- mailroom mcp --thread inbox-of-claude`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&thread, "thread", mcp.DefaultThread, "the inbox: id of a thread")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		id, err := mailroom.CheckThreadID(thread)
		if err != nil {
			return exitErrorf(exitUsage, "", "--thread: %w", err)
		}
		return m.mcp(cmd.Context(), id)
	}
	return cmd
}

// mcp serves the tools until the other side closes standard input, or ctx ends.
func (m *Main) mcp(ctx context.Context, thread string) error {
	o := clientDialer{main: *m}
	s := mcp.New(mcp.Options{
		Thread: thread, Version: version().Version, Dial: o.dial, RetryUnavailable: true,
		Log: slog.New(slog.NewTextHandler(m.Stderr, nil)),
	})
	err := s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(m.Stdin), Writer: nopCloser{m.Stdout}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // it was told to end
	}
	return err
}

// clientDialer finds the server for each call: it may have come, or moved, since the
// last.
type clientDialer struct {
	mu     sync.Mutex
	main   Main           // owned by mu
	found  endpoint       // owned by mu; where the last call went
	client *client.Client // owned by mu; to found, nil before the first call
}

func (o *clientDialer) dial() (*client.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, err := o.main.findEndpoint()
	if e, ok := errors.AsType[*exitError](err); ok && e.hint != "" {
		return nil, errors.New(e.Error() + ": " + e.hint)
	}
	if err != nil {
		return nil, err
	}
	if o.client == nil || d.url != o.found.url || d.token != o.found.token {
		o.found, o.client = d, client.New(d.url, d.token, client.WithHTTPClient(d.web))
	}
	return o.client, nil
}

// nopCloser is a writer that belongs to somebody else.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
