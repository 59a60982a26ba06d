package server

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// Messages is the part of a ledger for messages.
type Messages interface {
	Submit(ctx context.Context, in thread.Submit) (store.Submitted, error)
	Edit(ctx context.Context, thread, message string, parts []mailroom.Part) (mailroom.Message, error)
	Retract(ctx context.Context, thread, message string) error
	Message(ctx context.Context, thread, message string) (mailroom.Message, error)
	Transcript(ctx context.Context, q ledger.TranscriptQuery) (items []mailroom.Message, next string, err error)
}

// messageHandlers serve submits and transcripts.
type messageHandlers struct {
	alerts  *operate.Alerts // nil: the server sends no alerts
	ledger  Messages
	find    request.Lookup
	agents  *agentHandlers
	maxPage int // bytes
}

// SubmitInput is a submit, and its idempotency key if that comes as a header.
type SubmitInput struct {
	Key  string `header:"Idempotency-Key" doc:"The same submit with the same key takes effect once."`
	Body api.Submit
}

type submitToInput struct {
	ThreadPath
	SubmitInput
}

func (h *messageHandlers) submit(ctx context.Context, in *SubmitInput) (*body[store.Submitted], error) {
	return h.submitMessages(ctx, in, "body.")
}

func (h *messageHandlers) submitTo(ctx context.Context, in *submitToInput) (*body[store.Submitted], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	if other := strings.TrimSpace(in.Body.Thread); other != "" && other != id {
		return nil, request.Invalid("body.thread", "differs from the thread in the path", other)
	}
	in.Body.Thread = id
	return h.submitMessages(ctx, &in.SubmitInput, "body.")
}

// submitMessages validates a submit and passes it to the ledger. at prefixes the locations of
// refused fields.
func (h *messageHandlers) submitMessages(
	ctx context.Context, in *SubmitInput, at string,
) (*body[store.Submitted], error) {
	who, b := requestOf(ctx).who, in.Body
	if len(b.Decisions) > 0 {
		if err := who.Require(auth.PermissionDecide); err != nil {
			return nil, err
		}
	}
	key, err := submitKey(in.Key, b.Key)
	if err != nil {
		return nil, err
	}
	drafts, err := readMessages(b)
	if err != nil {
		return nil, err
	}
	if b.Agent != "" {
		if err := h.agents.checkAgent(ctx, b.Agent); err != nil {
			return nil, err
		}
	}
	sender := who.Name
	if b.Sender != "" {
		if !who.Has(auth.PermissionAdmin) {
			return nil, mailroom.Errorf(mailroom.CodeForbidden, "sender needs a token with the scope admin")
		}
		sender = b.Sender
	}
	if err := h.checkParent(ctx, b.Parent); err != nil {
		return nil, err
	}
	sub := thread.Submit{
		Thread: b.Thread, Messages: drafts, Sender: sender, Owner: who.Name, By: who,
		Origin: mailroom.Origin{Via: cmp.Or(who.Terms.Via, requestOf(ctx).via), Sender: sender, RequestID: requestOf(ctx).id},
		Agent:  b.Agent, AgentVersion: b.AgentVersion,
		Mode: b.Mode, Key: key, LimitKey: b.LimitKey, Priority: b.Priority, ExpectRun: b.ExpectRun,
		Options: b.Options, Parent: b.Parent, Metadata: b.Metadata, MaxCrashes: b.MaxCrashes,
		Decisions: readDecisions(b.Decisions, sender),
	}
	if b.Notify != "" {
		if sub.DeliverTo, err = h.alerts.Subscribe(ctx, h.find, b.Notify, "notify"); err != nil {
			return nil, request.Locate(at, err)
		}
		sub.DeliverAgent, sub.MustDeliver = alert.AgentName(b.Notify), true
	}
	if b.NotBefore != nil {
		sub.NotBefore = *b.NotBefore
	}
	if b.MaxAttempts != nil {
		sub.MaxAttempts = *b.MaxAttempts
	}
	if sub.Budget, err = b.Budget.Read("body.budget"); err != nil {
		return nil, err
	}
	if sub.Retry, err = b.Retry.Read("body.retry"); err != nil {
		return nil, err
	}
	if sub.Deadline, sub.Timeout, err = api.ReadWhen("body.deadline", b.Deadline); err != nil {
		return nil, err
	}
	out, err := h.ledger.Submit(ctx, sub)
	if err != nil {
		return nil, request.Locate(at, err)
	}
	if out.Superseded == nil {
		out.Superseded = []string{}
	}
	return &body[store.Submitted]{out}, nil
}

// submitKey returns the idempotency key from the header or the field, which must agree.
func submitKey(header, field string) (string, error) {
	if header != "" && field != "" && header != field {
		return "", request.Invalid("body.key", "differs from the header Idempotency-Key", field)
	}
	if header != "" {
		return header, nil
	}
	return field, nil
}

// readMessages reads the messages of a submit, given as text, parts or messages.
func readMessages(b api.Submit) ([]thread.NewMessage, error) {
	if len(b.Decisions) > 0 && b.Messages == nil && len(b.Parts) == 0 && strings.TrimSpace(b.Text) == "" {
		return nil, nil
	}
	if b.Messages == nil {
		parts, err := readParts("body.", b.Text, b.Parts)
		return []thread.NewMessage{{Parts: parts}}, err
	}
	if b.Text != "" || b.Parts != nil {
		return nil, request.Invalid("body.messages", "cannot be combined with text or parts: send one of them", nil)
	}
	if len(b.Messages) == 0 {
		return nil, request.Invalid("body.messages", "is empty", nil)
	}
	var out []thread.NewMessage
	for i, d := range b.Messages {
		parts, err := readParts(fmt.Sprintf("body.messages[%d].", i), d.Text, d.Parts)
		if err != nil {
			return nil, err
		}
		out = append(out, thread.NewMessage{Role: d.Role, Parts: parts, Visibility: d.Visibility})
	}
	return out, nil
}

func readParts(at, text string, parts []mailroom.Part) ([]mailroom.Part, error) {
	switch {
	case parts == nil:
		return mailroom.Text(text), nil
	case text != "":
		return nil, request.Invalid(at+"parts", "cannot be combined with text: send one of them", nil)
	}
	return parts, nil
}

func (h *messageHandlers) checkParent(ctx context.Context, run string) error {
	if run == "" {
		return nil
	}
	_, err := h.find.Run(ctx, run)
	if mailroom.CodeOf(err) == mailroom.CodeNotFound {
		err = request.Invalid("body.parent", "names an unknown run", run)
	}
	return err
}

type listMessagesInput struct {
	ThreadPath
	Before     string `query:"before" doc:"The next of the previous page."`
	Limit      int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Messages of the page at most."`
	Visibility string `query:"visibility" enum:"all,internal" doc:"Only messages of this visibility. Absent: of both."`
	All        bool   `query:"all" doc:"Include superseded, retracted and unread messages."`
}

func (h *messageHandlers) listMessages(
	ctx context.Context, in *listMessagesInput,
) (*body[api.Page[mailroom.Message]], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	t, err := h.find.Thread(ctx, id)
	if err != nil {
		return nil, err
	}
	items, next, err := h.ledger.Transcript(ctx, ledger.TranscriptQuery{
		Thread: id, Key: t.Key, Before: in.Before, Limit: in.Limit, Visibility: in.Visibility, All: in.All, Bytes: h.maxPage,
	})
	if err != nil {
		return nil, request.Locate("query.", err)
	}
	if items == nil {
		items = []mailroom.Message{}
	}
	return &body[api.Page[mailroom.Message]]{api.Page[mailroom.Message]{Items: items, Next: request.Given(next)}}, nil
}

// MessagePath is the thread and message id in a path.
type MessagePath struct {
	ThreadPath
	Message string `path:"message" doc:"Id of a message."`
}

type messageInput struct{ MessagePath }

func (h *messageHandlers) getMessage(ctx context.Context, in *messageInput) (*body[mailroom.Message], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	m, err := h.findMessage(ctx, id, in.Message)
	return &body[mailroom.Message]{m}, err
}

type editMessageInput struct {
	MessagePath
	Body api.Edit
}

func (h *messageHandlers) editMessage(ctx context.Context, in *editMessageInput) (*body[mailroom.Message], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	parts, err := readParts("body.", in.Body.Text, in.Body.Parts)
	if err != nil {
		return nil, err
	}
	before, err := h.findMessage(ctx, id, in.Message)
	if err != nil {
		return nil, err
	}
	if err := thread.CheckFiles("body.", parts, before.Parts); err != nil {
		return nil, err
	}
	// Edit reports conflict, not not_found, for every message that cannot be changed, so
	// existence is checked before.
	m, err := h.ledger.Edit(ctx, id, in.Message, parts)
	return &body[mailroom.Message]{m}, request.Locate("body.", err)
}

func (h *messageHandlers) retractMessage(ctx context.Context, in *messageInput) (*empty, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	if _, err := h.findMessage(ctx, id, in.Message); err != nil {
		return nil, err
	}
	return nil, h.ledger.Retract(ctx, id, in.Message)
}

// findMessage returns a message that is visible to the caller. A later transaction can use its id,
// as with [request.Lookup.Run].
func (h *messageHandlers) findMessage(ctx context.Context, thread, id string) (mailroom.Message, error) {
	if _, err := h.find.Thread(ctx, thread); err != nil {
		return mailroom.Message{}, err
	}
	return h.ledger.Message(ctx, thread, id)
}
