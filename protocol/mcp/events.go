package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/client"
	"mailroom/internal/display"
)

// eventsExtension is the extension Events of MCP. SEP-3415 defines its methods, fields and error codes (sections
// Capability Negotiation to Error Handling), for the revision 2026-07-28 of MCP and later. Of its three ways of
// delivery, this package has poll and push, which keep nothing: the client owns its subscription, which is a cursor.
const (
	eventsExtension = "io.modelcontextprotocol/events"
	eventsRevision  = "2026-07-28"
)

// Methods of the extension.
const (
	methodEventsList   = "events/list"
	methodEventsPoll   = "events/poll"
	methodEventsStream = "events/stream"
)

// EventWaiting is the name of the only type of event: a message has come to the head of the inbox.
const EventWaiting = "inbox.waiting"

// Error codes of the extension (SEP-3415, Error Handling).
const (
	codeEventNotFound     = -32023
	codeEventForbidden    = -32024
	codeResourceExhausted = -32025
)

const (
	// maxEvents bounds the occurrences of one poll. A poll that does not ask for a number gets defaultEvents.
	maxEvents     = 100
	defaultEvents = 50
	// nextPoll is when a client that has got all events polls again.
	nextPoll = 10 * time.Second
)

// eventNotice is what a client may show its model. It is the same for each event: an event has nothing of a message.
const eventNotice = "Messages wait in your inbox. Read the first with inbox_peek, and remove each with inbox_pop " +
	"when you have handled it. (A program sent this notice. It is not from your user and approves nothing.)"

// resultComplete is the resultType of each result.
const resultComplete = "complete"

type eventType struct {
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	Delivery      []string `json:"delivery"`
	InputSchema   any      `json:"inputSchema"`
	PayloadSchema any      `json:"payloadSchema"`
}

type eventsListParams struct {
	sdk.ParamsBase
	Cursor *string `json:"cursor"`
}

type eventsListResult struct {
	sdk.ResultBase
	ResultType string      `json:"resultType"`
	Events     []eventType `json:"events"`
}

// eventsParams are the parameters of events/poll and of events/stream, which has no MaxEvents.
type eventsParams struct {
	sdk.ParamsBase
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
	Cursor    *string        `json:"cursor"`    // nil: from now on
	MaxAge    *int64         `json:"maxAgeMs"`  // older occurrences are not replayed
	MaxEvents *int           `json:"maxEvents"` // nil: defaultEvents
}

type eventsPollResult struct {
	sdk.ResultBase
	ResultType string       `json:"resultType"`
	Events     []occurrence `json:"events"`
	Cursor     string       `json:"cursor"`
	Truncated  bool         `json:"truncated"`
	HasMore    bool         `json:"hasMore"`
	NextPoll   int64        `json:"nextPollMs"`
}

// occurrence is an event: an EventOccurrence of the extension. ID is the run of the message, the activity_id of the
// tools, so an event that comes again has the same one.
type occurrence struct {
	ID        string      `json:"eventId"`
	Name      string      `json:"name"`
	Timestamp time.Time   `json:"timestamp"`
	Data      waitingData `json:"data"`
}

// waitingData is the payload of an event.
type waitingData struct {
	Inbox   string `json:"inbox"`
	Waiting int    `json:"waiting"` // messages, when the event is sent; 0: it was read since
	Notice  string `json:"notice"`
}

func waitingType() eventType {
	text := map[string]any{"type": "string"}
	return eventType{
		Name: EventWaiting,
		Description: "A message has come to the head of the inbox. The event says how many wait and has nothing of " +
			"their text; the messages stay in the inbox until inbox_pop removes them.",
		Delivery:    []string{"poll", "push"},
		InputSchema: map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false},
		PayloadSchema: map[string]any{"type": "object", "required": []string{"inbox", "waiting", "notice"},
			"properties": map[string]any{
				"inbox": text, "waiting": map[string]any{"type": "integer", "minimum": 0}, "notice": text,
			}},
	}
}

// addEvents registers the methods of the extension. streams sends what events/stream sends; if it is nil, the
// connection can carry none.
func (t *tools) addEvents(s *sdk.Server, streams *eventStreams) {
	stream := func(ctx context.Context, _ *sdk.ServerSession, p *eventsParams) (*eventsStreamResult, error) {
		if err := checkRevision(p); err != nil {
			return nil, err
		}
		if streams == nil {
			return nil, errNoMethod(methodEventsStream)
		}
		return streams.serve(ctx, t, p)
	}
	// These fail only for a name of the library's own methods.
	_ = sdk.AddReceivingCustomMethod(s, methodEventsList, t.listEvents)
	_ = sdk.AddReceivingCustomMethod(s, methodEventsPoll, t.pollEvents)
	_ = sdk.AddReceivingCustomMethod(s, methodEventsStream, stream)
}

func (t *tools) listEvents(_ context.Context, _ *sdk.ServerSession, p *eventsListParams) (*eventsListResult, error) {
	if p == nil || !isRevision(p.Meta) {
		return nil, errNoMethod(methodEventsList)
	}
	if p.Cursor != nil { // there is one page, so no result has had a cursor
		return nil, errParams("cursor: %q is of no page of this list", display.Cut(*p.Cursor, maxQuoted))
	}
	return &eventsListResult{ResultType: resultComplete, Events: []eventType{waitingType()}}, nil
}

func (t *tools) pollEvents(ctx context.Context, _ *sdk.ServerSession, p *eventsParams) (*eventsPollResult, error) {
	if err := checkRevision(p); err != nil {
		return nil, err
	}
	most := defaultEvents
	if p.MaxEvents != nil {
		if most = min(*p.MaxEvents, maxEvents); most < 1 {
			return nil, errParams("maxEvents must be at least 1, not %d", most)
		}
	}
	at, err := p.start()
	if err != nil {
		return nil, err
	}
	c, err := t.Dial()
	if err != nil {
		return nil, eventError(mailroom.Errorf(mailroom.CodeUnavailable, "%w", err))
	}
	out, err := pollInbox(ctx, t.box(c, ""), at, p.oldest(time.Now()), most)
	if err != nil {
		return nil, eventError(err)
	}
	return out, nil
}

// pollInbox returns the events after a place, the zero one for now, as far as they are not older than oldest.
func pollInbox(ctx context.Context, b *box, at place, oldest time.Time, most int) (*eventsPollResult, error) {
	th, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	out := &eventsPollResult{ResultType: resultComplete, Events: []occurrence{}, NextPoll: nextPoll.Milliseconds()}
	if at.isNow() {
		out.Cursor = at.within(th).String()
		return out, nil
	}
	from := at.within(th)
	out.Truncated = from != at
	// The page is read after the thread, so it has all events up to the thread's last entry.
	page, err := b.c.Entries(ctx, b.thread, client.EntriesQuery{After: from.seq, Kinds: headKinds(), Limit: most})
	if err != nil {
		return nil, err
	}
	to := from
	for i := range page.Items {
		e := &page.Items[i]
		next, isNew := to.after(e)
		switch to = next; {
		case isNew && e.At.Before(oldest):
			out.Truncated = true
		case isNew:
			out.Events = append(out.Events, occurrence{ID: to.run, Name: EventWaiting, Timestamp: e.At})
		}
	}
	if out.HasMore = page.Next != nil; !out.HasMore {
		to.seq = max(to.seq, th.LastSeq)
	}
	out.Cursor = to.String()
	return out, b.fill(ctx, out.Events)
}

// fill adds the payload of events.
func (b *box) fill(ctx context.Context, events []occurrence) error {
	if len(events) == 0 {
		return nil
	}
	runs, _, err := b.waiting(ctx)
	for i := range events {
		events[i].Data = waitingData{Inbox: b.thread, Waiting: len(runs), Notice: eventNotice}
	}
	return err
}

// start checks parameters and returns the place that they name, the zero one for now.
func (p *eventsParams) start() (place, error) {
	switch {
	case p.Name != EventWaiting:
		return place{}, &jsonrpc.Error{Code: codeEventNotFound, Message: "NotFound",
			Data: errorData(map[string]any{"kind": "event",
				"reason": fmt.Sprintf("no event %q: use %s", display.Cut(p.Name, maxQuoted), EventWaiting)})}
	case len(p.Arguments) > 0:
		return place{}, errParams("%s has no arguments", EventWaiting)
	case p.MaxAge != nil && *p.MaxAge < 0:
		return place{}, errParams("maxAgeMs must not be negative, not %d", *p.MaxAge)
	case p.Cursor == nil:
		return place{}, nil
	}
	return parsePlace(*p.Cursor)
}

// oldest returns the time before which no occurrence is replayed; zero: none is too old.
func (p *eventsParams) oldest(now time.Time) time.Time {
	if p.MaxAge == nil || *p.MaxAge > now.UnixMilli() {
		return time.Time{}
	}
	return now.Add(-time.Duration(*p.MaxAge) * time.Millisecond)
}

// checkRevision refuses a request of a revision for which the extension is not defined, which is not offered there.
func checkRevision(p *eventsParams) error {
	if p == nil || !isRevision(p.Meta) {
		return errNoMethod("events/*")
	}
	return nil
}

// isRevision reports whether the metadata of a request name a revision that has the extension.
func isRevision(meta sdk.Meta) bool {
	revision, _ := meta[sdk.MetaKeyProtocolVersion].(string)
	return revision >= eventsRevision
}

// offerEvents removes the extension from the capabilities for clients of older revisions, which call initialize.
func offerEvents(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, q sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, q)
		if out, ok := result.(*sdk.InitializeResult); ok && err == nil && out.Capabilities != nil {
			old := *out.Capabilities
			old.Extensions = nil
			out.Capabilities = &old
		}
		return result, err
	}
}

// eventError converts an error to one of the extension. A token that was revoked, and an inbox that is not of the
// token, are Forbidden.
func eventError(err error) *jsonrpc.Error {
	e := asRefusal(err)
	data := map[string]any{"reason": e.Error()}
	switch e.code {
	case mailroom.CodeUnauthenticated, mailroom.CodeForbidden, mailroom.CodeNotFound, mailroom.CodeConflict:
		return &jsonrpc.Error{Code: codeEventForbidden, Message: "Forbidden", Data: errorData(data)}
	case mailroom.CodeRateLimited, mailroom.CodeQuotaExceeded:
		data["limit"] = "requests"
		return &jsonrpc.Error{Code: codeResourceExhausted, Message: "ResourceExhausted", Data: errorData(data)}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Error(), Data: errorData(data)}
}

func errParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func errNoMethod(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
		Message: fmt.Sprintf("%s needs the revision %s of MCP, with %s in _meta", method, eventsRevision,
			sdk.MetaKeyProtocolVersion)}
}

func errorData(v map[string]any) json.RawMessage {
	raw, _ := json.Marshal(v) // cannot fail: strings and numbers
	return raw
}

// maxQuoted bounds what an error repeats of a request, in characters.
const maxQuoted = 64
