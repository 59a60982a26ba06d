// Package mcp serves an agent's mailbox as tools of the Model Context Protocol, over the standard
// streams of a command and over HTTP.
//
// The tools use only the operations of package client. A command uses a client of a remote server;
// the server uses a client whose requests it executes itself with the caller's credentials. A tool
// call therefore has exactly the permissions of its token.
//
// An inbox is a thread of the agent in package inbox. The tools have the shapes of the poll-mode
// platform, where a thread is a workspace and a run is an activity.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/client"
	"mailroom/internal/recovery"
)

// DefaultThread is the inbox for clients that name no inbox.
const DefaultThread = "inbox"

const (
	// maxWait bounds one wait for a message. usualWait is the default, because clients give up
	// after a minute.
	maxWait     = 5 * time.Minute
	defaultWait = 30 * time.Second
	// commandTimeout bounds the wait for a command to be executed.
	commandTimeout = 30 * time.Second
)

// Options configure the tools.
type Options struct {
	// Thread is the id of the inbox. It is created at first use.
	Thread string
	// Own is the thread whose own schedules the tools make; "" is Thread.
	Own     string
	Version string
	// Dial returns the client that one call of a tool uses.
	Dial func() (*client.Client, error)
	// RetryUnavailable makes wait_for_message retry while the server is unavailable. Other calls fail at
	// once.
	RetryUnavailable bool
	// Schemas caches the schemas of the tools, for a caller that creates many servers.
	Schemas *sdk.SchemaCache
	// Call, if not nil, gets the metadata of each call of a tool before the call is made.
	Call func(meta map[string]any)
	// Log receives the stack of a call that panicked. If it is nil, slog's default logger does.
	Log *slog.Logger
}

const instructions = `Your mailbox. wait_for_message returns the message at its head and leaves it there; when you have
handled it, remove it with inbox_pop, or you will receive it again. send_message_to_user writes to the conversation
of your inbox; delegate_task gives a task to another agent or thread, whose result arrives as a message;
schedule_message sends a message to yourself later.`

// New returns a server with the tools, and with the events of the inbox but without streams of them, which [Serve] has.
func New(o Options) *sdk.Server { return newServer(o, nil) }

func newServer(o Options, streams *eventStreams) *sdk.Server {
	if strings.TrimSpace(o.Thread) == "" {
		o.Thread = DefaultThread
	}
	offered := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}} // the lists of tools and events never change
	offered.AddExtension(eventsExtension, map[string]any{})
	s := sdk.NewServer(&sdk.Implementation{Name: "mailroom", Title: "Mailroom", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions, SchemaCache: o.Schemas, Capabilities: offered,
	})
	s.AddReceivingMiddleware(o.recovered, withCodes, offerEvents)
	t := &tools{o}
	t.addInboxTools(s)
	t.addOperations(s)
	t.addSchedules(s)
	t.addEvents(s, streams)
	return s
}

// tools implements the tools of one server.
type tools struct{ Options }

// add registers a tool with a JSON result. An error of f is returned as plain text with its code.
func add[In, Out any](s *sdk.Server, t *tools, about *sdk.Tool,
	f func(ctx context.Context, c *client.Client, in In) (Out, error)) {
	sdk.AddTool(s, about, func(ctx context.Context, q *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		if t.Call != nil {
			t.Call(q.Params.Meta)
		}
		c, err := t.Dial()
		if err != nil {
			return nil, nil, &refusal{mailroom.CodeUnavailable, err.Error()}
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, nil, asRefusal(err)
		}
		return nil, out, nil
	})
}

// refusal is the error of a tool as its caller sees it.
type refusal struct {
	code    mailroom.Code
	message string
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.message }

// asRefusal converts an error to a refusal with a code.
func asRefusal(err error) *refusal {
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return &refusal{mailroom.CodeUnavailable, "the call ended before its outcome was known"}
		}
		return &refusal{mailroom.CodeInternal, err.Error()}
	}
	r := &refusal{e.Code, e.Message}
	for _, f := range e.Fields {
		if !strings.Contains(r.message, f.Message) {
			r.message += fmt.Sprintf("; %s: %s", f.Location, f.Message)
		}
	}
	if e.RetryAfter > 0 {
		r.message += fmt.Sprintf("; try again in %s", e.RetryAfter)
	}
	return r
}

// withCodes adds a code to the errors about arguments that come from the library itself.
func withCodes(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, q)
		if err != nil {
			return nil, err // result may be a typed nil
		}
		if out, ok := result.(*sdk.CallToolResult); ok && out != nil && out.IsError {
			if _, ours := errors.AsType[*refusal](out.GetError()); !ours {
				out.Content = nil // removes the text that the old output had
				out.SetError(&refusal{mailroom.CodeInvalid, out.GetError().Error()})
			}
		}
		return result, err
	}
}

// recovered turns a panic into the protocol's internal error. The library runs each call on its own
// goroutine, where nothing else recovers.
func (o *Options) recovered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (result sdk.Result, err error) {
		defer recovery.Handle(o.Log, "a call of MCP", func(*recovery.Panic) {
			result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
				Message: "internal: the call failed; the log says why"}
		})
		return next(ctx, method, q)
	}
}
