package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/client"
)

type waitArgs struct {
	Timeout *float64 `json:"timeout_secs,omitempty" jsonschema:"seconds to wait for a message, at most 300; 30 by default"`
}

type timedOut struct {
	Timeout bool `json:"timeout"`
}

type peekArgs struct {
	Limit *int `json:"limit,omitempty" jsonschema:"how many messages to show, 1 to 100; 10 by default"`
}

type popArgs struct {
	Activity string `json:"activity_id" jsonschema:"the activity_id of the message at the head"`
}

type sayArgs struct {
	Message   string `json:"message" jsonschema:"text of the message"`
	Workspace string `json:"workspace_id,omitempty" jsonschema:"the inbox to write to; yours by default"`
}

type sentMessage struct {
	Status    string `json:"status"`
	Activity  string `json:"activity_id"`
	Message   string `json:"message_id"`
	Workspace string `json:"workspace_id"`
}

type delegateArgs struct {
	Workspace string `json:"workspace_id" jsonschema:"a thread, or the name of an agent, which gets a new thread for the task"`
	Task      string `json:"task" jsonschema:"description of the task"`
	Source    string `json:"source_workspace_id,omitempty" jsonschema:"the inbox at which the result arrives; yours by default"`
}

type delegatedTask struct {
	Delegation string `json:"delegation_id"` // run
	Status     string `json:"status"`
	Workspace  string `json:"workspace_id"` // thread of that run
}

// addInboxTools registers the tools of the poll-mode contract.
func (t *tools) addInboxTools(s *sdk.Server) {
	look := &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	add(s, t, &sdk.Tool{
		Name: "wait_for_message", Annotations: look,
		Description: "Wait for the message at the head of the inbox and return it without removing it, or {\"timeout\": true}.",
	}, t.waitForMessage)
	add(s, t, &sdk.Tool{
		Name: "inbox_peek", Annotations: look,
		Description: "Show the message at the head of the inbox and those behind it, without removing any.",
	}, t.peek)
	add(s, t, &sdk.Tool{
		Name:        "inbox_pop",
		Description: "Remove the message at the head of the inbox, once you have handled it. Only the head can be removed.",
	}, func(ctx context.Context, c *client.Client, in popArgs) (Popped, error) {
		if strings.TrimSpace(in.Activity) == "" {
			return Popped{}, errArgument("activity_id", "is blank")
		}
		return t.box(c, "").pop(ctx, in.Activity)
	})
	add(s, t, &sdk.Tool{
		Name:        "send_message_to_user",
		Description: "Write a message to the conversation of the inbox. While a message is at the head, it answers that message.",
	}, t.sendMessage)
	add(s, t, &sdk.Tool{
		Name:        "delegate_task",
		Description: "Give a task to another agent or thread. Its result arrives later as a message of kind delegation_result.",
	}, t.delegate)
}

// box returns the inbox that a call names. Without a name, it is the inbox of the tools' options.
func (t *tools) box(c *client.Client, workspace string) *box {
	if workspace == "" || workspace == t.Thread {
		return &box{c: c, thread: t.Thread, make: true}
	}
	return &box{c: c, thread: workspace}
}

func errArgument(name, what string) error {
	return mailroom.Errorf(mailroom.CodeInvalid, "%s %s", name, what)
}

func (t *tools) waitForMessage(ctx context.Context, c *client.Client, in waitArgs) (any, error) {
	most := defaultWait
	if in.Timeout != nil {
		s := *in.Timeout
		if math.IsNaN(s) || s < 0 || s > maxWait.Seconds() {
			return nil, errArgument("timeout_secs", fmt.Sprintf("must be between 0 and %g, not %g", maxWait.Seconds(), s))
		}
		most = time.Duration(s * float64(time.Second))
	}
	b := t.box(c, "")
	if most == 0 {
		rows, err := b.peek(ctx, 1)
		if err == nil && len(rows.Items) > 0 {
			return rows.Items[0], nil
		}
		return timedOut{true}, err
	}
	end := time.Now().Add(most)
	for {
		row, err := b.wait(ctx, time.Until(end))
		switch {
		case err == nil && row == nil:
			return timedOut{true}, nil
		case err == nil:
			return row, nil
		case !t.RetryUnavailable || mailroom.CodeOf(err) != mailroom.CodeUnavailable || !pause(ctx, err, end):
			return nil, err
		}
	}
}

// retryPause is the minimum pause before a request to an unavailable server is repeated.
const retryPause = time.Second

// pause waits before the next attempt to reach the server, which failed with err. It returns false if end would have
// passed by then.
func pause(ctx context.Context, err error, end time.Time) bool {
	wait := retryPause
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	if time.Until(end) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (t *tools) peek(ctx context.Context, c *client.Client, in peekArgs) (Rows, error) {
	limit := 10
	if in.Limit != nil {
		if limit = *in.Limit; limit < 1 || limit > 100 {
			return Rows{}, errArgument("limit", fmt.Sprintf("must be between 1 and 100, not %d", limit))
		}
	}
	return t.box(c, "").peek(ctx, limit)
}

func (t *tools) sendMessage(ctx context.Context, c *client.Client, in sayArgs) (sentMessage, error) {
	if strings.TrimSpace(in.Message) == "" {
		return sentMessage{}, errArgument("message", "is blank")
	}
	b := t.box(c, in.Workspace)
	out, err := b.execute(ctx, inbox.Command{Say: in.Message})
	return sentMessage{"sent", out.run, out.message, b.thread}, err
}

func (t *tools) delegate(ctx context.Context, c *client.Client, in delegateArgs) (delegatedTask, error) {
	if strings.TrimSpace(in.Task) == "" {
		return delegatedTask{}, errArgument("task", "is blank")
	}
	b := t.box(c, in.Source)
	d, err := target(ctx, b, strings.TrimSpace(in.Workspace))
	if err != nil {
		return delegatedTask{}, err
	}
	d.Task = in.Task
	out, err := b.execute(ctx, inbox.Command{Delegate: &d})
	return delegatedTask{out.sent.Run, "queued", out.sent.Thread}, err
}

// target returns the thread or the agent that a workspace id names.
func target(ctx context.Context, b *box, workspace string) (inbox.Delegation, error) {
	switch workspace {
	case "":
		return inbox.Delegation{}, errArgument("workspace_id", "is blank")
	case b.thread:
		return inbox.Delegation{}, errArgument("workspace_id", "is this inbox itself: name another thread, or an agent")
	}
	t, err := b.c.Thread(ctx, workspace)
	if code := mailroom.CodeOf(err); code != mailroom.CodeNotFound && code != mailroom.CodeInvalid {
		return inbox.Delegation{Thread: t.ID}, err
	}
	agents, err := b.c.Agents(ctx)
	if err != nil {
		return inbox.Delegation{}, err
	}
	for _, a := range agents {
		switch {
		case a.Name != workspace:
		case a.Kind != nil && *a.Kind == kind:
			return inbox.Delegation{}, errArgument("workspace_id",
				fmt.Sprintf("names the agent %s, whose new threads have no reader: name the thread of an inbox", a.Name))
		case !a.Available:
			why := "no worker runs it"
			if a.Reason != nil {
				why = *a.Reason
			}
			return inbox.Delegation{}, mailroom.Errorf(mailroom.CodeConflict, "agent %s is not available: %s", a.Name, why)
		default:
			return inbox.Delegation{Agent: a.Name}, nil
		}
	}
	return inbox.Delegation{}, mailroom.Errorf(mailroom.CodeNotFound, "no thread and no agent is named %q", workspace)
}

type submitArgs struct {
	Thread string `json:"thread,omitempty" jsonschema:"the thread to write to; a new one by default"`
	Text   string `json:"text" jsonschema:"the message"`
	Agent  string `json:"agent,omitempty" jsonschema:"the agent that answers; the thread's by default"`
	Mode   string `json:"mode,omitempty" jsonschema:"how to handle a busy thread: queue (the default), steer, interrupt, latest, collect or reject"`
	Key    string `json:"key,omitempty" jsonschema:"idempotency key: a message with the same key is accepted once"`
}

type runArgs struct {
	Run     string   `json:"run" jsonschema:"id of the run"`
	Timeout *float64 `json:"timeout_secs,omitempty" jsonschema:"seconds to wait until the run ends or waits for input; at most 300, 0 by default"`
}

type cancelArgs struct {
	Run string `json:"run" jsonschema:"id of the run"`
}

type ticketsArgs struct {
	Thread string `json:"thread,omitempty"`
	Run    string `json:"run,omitempty"`
	State  string `json:"state,omitempty" jsonschema:"open (the default), decided, expired, void or any"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most 500; 50 by default"`
}

type decideArgs struct {
	Ticket   string `json:"ticket" jsonschema:"id of the ticket"`
	Decision string `json:"decision" jsonschema:"approve or deny an approval; answer a question or an event"`
	Answer   any    `json:"answer,omitempty" jsonschema:"the answer, with decision answer"`
	Reason   string `json:"reason,omitempty"`
	Digest   string `json:"digest,omitempty" jsonschema:"the ticket's digest, at least 16 characters; required to approve"`
}

// addOperations registers operations of Mailroom with their usual shapes.
func (t *tools) addOperations(s *sdk.Server) {
	add(s, t,
		&sdk.Tool{Name: "submit_message", Description: "Send a message to a thread, which starts a run of its agent."},
		submitMessage)
	add(s, t, &sdk.Tool{
		Name: "get_run", Description: "Show a run: its status, and its reply once it is completed.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}, getRun)
	add(s, t, &sdk.Tool{Name: "cancel_run", Description: "Cancel a run, or ask it to stop if it is running."},
		func(ctx context.Context, c *client.Client, in cancelArgs) (api.Run, error) {
			return c.CancelRun(ctx, in.Run)
		})
	add(s, t, &sdk.Tool{
		Name: "list_tickets", Description: "List what runs wait for: approvals, questions, events, timers and other runs.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}, listTickets)
	add(s, t,
		&sdk.Tool{Name: "decide", Description: "Answer a ticket, once. Approve only what you were shown: send its digest."},
		decide)
}

func submitMessage(ctx context.Context, c *client.Client, in submitArgs) (api.Submitted, error) {
	return c.Submit(ctx, api.Submit{Thread: in.Thread, Text: in.Text, Agent: in.Agent, Mode: mailroom.Mode(in.Mode),
		Key: in.Key})
}

func getRun(ctx context.Context, c *client.Client, in runArgs) (api.Run, error) {
	if in.Run == "" {
		return api.Run{}, errArgument("run", "is blank")
	}
	if in.Timeout == nil || *in.Timeout == 0 {
		return c.Run(ctx, in.Run)
	}
	if s := *in.Timeout; math.IsNaN(s) || s < 0 || s > maxWait.Seconds() {
		return api.Run{}, errArgument("timeout_secs", fmt.Sprintf("must be between 0 and %g, not %g", maxWait.Seconds(), s))
	}
	return c.WaitRun(ctx, in.Run, time.Duration(*in.Timeout*float64(time.Second)))
}

func listTickets(ctx context.Context, c *client.Client, in ticketsArgs) (api.Page[api.Ticket], error) {
	var terms []string
	for key, value := range map[string]string{"thread": in.Thread, "run": in.Run} {
		if value != "" {
			terms = append(terms, key+":"+client.Quote(value))
		}
	}
	switch in.State {
	case "":
		terms = append(terms, "state:open")
	case "any":
	default:
		terms = append(terms, "state:"+client.Quote(in.State))
	}
	return c.Tickets(ctx, client.ListQuery{Q: strings.Join(terms, " "), Limit: in.Limit})
}

func decide(ctx context.Context, c *client.Client, in decideArgs) (api.Ticket, error) {
	d := api.Decision{Decision: mailroom.Verdict(in.Decision), Reason: in.Reason, Digest: in.Digest}
	if in.Answer != nil {
		raw, err := json.Marshal(in.Answer)
		if err != nil {
			return api.Ticket{}, errArgument("answer", "cannot be written as JSON")
		}
		d.Answer = raw
	}
	return c.Decide(ctx, in.Ticket, d)
}
