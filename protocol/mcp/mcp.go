// Package mcp lets an agent read its mail and write to others by tool calls: the
// Model Context Protocol, over the standard streams of a command and over HTTP.
//
// The tools are made of the operations of package client alone. A command gives
// them a client of a server elsewhere; the server gives them one whose requests
// it carries out itself, for whoever called the tool. So a tool call is allowed
// what its token is, and sees what its token sees.
//
// An inbox is a thread of the agent in package inbox. Its tools have the shapes
// of the poll-mode platform, where a thread is a workspace and a run an activity.
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

// DefaultThread is the inbox of who names none.
const DefaultThread = "inbox"

const (
	// maxWait bounds one wait for a message, usualWait is it by default: clients
	// give a call up after a minute.
	maxWait   = 5 * time.Minute
	usualWait = 30 * time.Second
	// doTime bounds how long a command waits until it was done.
	doTime = 30 * time.Second
)

// Options of the tools.
type Options struct {
	// Thread is whose inbox is read. It is made when it is looked at first.
	Thread  string
	Version string
	// Dial returns the client of one call.
	Dial func() (*client.Client, error)
	// Patient lets wait_for_message wait for a server that is away. Other
	// calls fail then.
	Patient bool
	// Schemas may be given where servers are made often.
	Schemas *sdk.SchemaCache
	// Log gets the stack of a call that panicked. Nil is slog's default.
	Log *slog.Logger
}

const instructions = `Your mailbox. wait_for_message returns the message at its head and leaves it there; when you have
dealt with it, take it away with inbox_pop, or it comes again. send_message_to_user says something in the conversation
of your inbox; delegate_task hands a task to another agent or thread, whose result arrives as a message.`

// New makes a server of the tools.
func New(o Options) *sdk.Server {
	if strings.TrimSpace(o.Thread) == "" {
		o.Thread = DefaultThread
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "mailroom", Title: "Mailroom", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions, SchemaCache: o.Schemas,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}, // the list never changes
	})
	s.AddReceivingMiddleware(o.recovered, plainRefusals)
	t := &tools{o}
	t.inbox(s)
	t.others(s)
	return s
}

// tools are what one server offers.
type tools struct{ Options }

// add offers a tool whose answer is JSON. What f returns as its error is told in
// plain words, with its code.
func add[In, Out any](s *sdk.Server, t *tools, about *sdk.Tool, f func(ctx context.Context, c *client.Client, in In) (Out, error)) {
	sdk.AddTool(s, about, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		c, err := t.Dial()
		if err != nil {
			return nil, nil, &refusal{mailroom.CodeUnavailable, err.Error()}
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, nil, plain(err)
		}
		return nil, out, nil
	})
}

// refusal is an error of a tool as its caller reads it.
type refusal struct {
	code    mailroom.Code
	message string
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.message }

// plain makes err a refusal. What went wrong inside is not for the caller.
func plain(err error) *refusal {
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

// plainRefusals gives the refusals of arguments, which the library makes, a code.
func plainRefusals(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, q)
		if err != nil {
			return nil, err // result may be a typed nil beside it
		}
		if out, ok := result.(*sdk.CallToolResult); ok && out != nil && out.IsError {
			if _, ours := errors.AsType[*refusal](out.GetError()); !ours {
				out.Content = nil // it would keep the text
				out.SetError(&refusal{mailroom.CodeInvalid, out.GetError().Error()})
			}
		}
		return result, err
	}
}

// recovered answers a call that panics with the protocol's internal error. The
// library runs each call on a goroutine of its own, where nothing else recovers.
func (o *Options) recovered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (result sdk.Result, err error) {
		defer recovery.Handle(o.Log, "a call of MCP", func(*recovery.Panic) {
			result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal: the call failed; the log says why"}
		})
		return next(ctx, method, q)
	}
}
