package mcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom"
	"mailroom/client"
	"mailroom/internal/retry"
)

// Notifications of events/stream.
const (
	noteActive     = "notifications/events/active"
	noteEvent      = "notifications/events/event"
	noteHeartbeat  = "notifications/events/heartbeat"
	noteError      = "notifications/events/error"
	noteTerminated = "notifications/events/terminated"
)

const (
	// maxStreams bounds the open streams of one connection. Over HTTP each is a connection of its own, and one of the
	// streams of its token.
	maxStreams = 16
	// heartbeat is the time between two frames at most. The extension asks for 30 s. With each heartbeat the stream
	// finds its server and asks for its inbox again.
	heartbeat = 20 * time.Second
	// maxStream is the life of a stream. Its client opens the next one with its cursor.
	maxStream = time.Hour
)

// errHeartbeat ends the reading of the inbox for a heartbeat.
var errHeartbeat = errors.New("a heartbeat is due")

type eventsStreamResult struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// streamFrame is the parameters of a notification of a stream.
type streamFrame struct {
	*occurrence
	Cursor    string         `json:"cursor,omitempty"`
	Truncated *bool          `json:"truncated,omitempty"`
	Error     *jsonrpc.Error `json:"error,omitempty"`
	Meta      map[string]any `json:"_meta"`
}

// eventStreams are the streams of one connection.
type eventStreams struct {
	send func(ctx context.Context, method string, params any) error
	// onEnd calls cancel when the connection is served no longer, unless stop was called before.
	onEnd       func(cancel context.CancelFunc) (stop func() bool)
	every, life time.Duration // heartbeat and maxStream, but for tests
	open        atomic.Int32
}

// serve serves events/stream until its client cancels it, its right ends, or it is maxStream old. An error means
// that no stream was opened.
func (s *eventStreams) serve(ctx context.Context, t *tools, p *eventsParams) (*eventsStreamResult, error) {
	at, err := p.start()
	if err != nil {
		return nil, err
	}
	defer s.open.Add(-1)
	if s.open.Add(1) > maxStreams {
		return nil, &jsonrpc.Error{Code: codeResourceExhausted, Message: "ResourceExhausted",
			Data: errorData(map[string]any{"limit": "subscriptions", "max": maxStreams})}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.onEnd(cancel)()
	one := &eventStream{tools: t, streams: s, id: p.Meta[requestKey], at: at, oldest: p.oldest(time.Now())}
	if err := one.begin(ctx); err != nil {
		return nil, err
	}
	if err := one.run(ctx); err != nil {
		return nil, err
	}
	return &eventsStreamResult{ResultBase: sdk.ResultBase{Meta: sdk.Meta{sdk.MetaKeySubscriptionID: one.id}},
		ResultType: resultComplete}, nil
}

// eventStream is one stream. The goroutine of its call owns it.
type eventStream struct {
	tools   *tools
	streams *eventStreams
	id      any // of the request
	at      place
	oldest  time.Time // no occurrence before it is sent

	failures int       // in a row
	sent     time.Time // when the last frame was sent
}

func (s *eventStream) send(ctx context.Context, method string, f streamFrame) error {
	f.Meta = map[string]any{sdk.MetaKeySubscriptionID: s.id}
	s.sent = time.Now()
	return s.streams.send(ctx, method, f)
}

func (s *eventStream) sendActive(ctx context.Context, truncated bool) error {
	return s.send(ctx, noteActive, streamFrame{Cursor: s.at.String(), Truncated: &truncated})
}

// box returns the inbox, for one use.
func (s *eventStream) box() (*box, error) {
	c, err := s.tools.Dial()
	if err != nil {
		return nil, mailroom.Errorf(mailroom.CodeUnavailable, "%w", err)
	}
	return s.tools.box(c, ""), nil
}

// begin checks the right to the inbox and confirms the stream.
func (s *eventStream) begin(ctx context.Context) error {
	b, err := s.box()
	if err != nil {
		return eventError(err)
	}
	th, err := b.open(ctx)
	if err != nil {
		return eventError(err)
	}
	from := s.at
	s.at = from.within(th)
	return s.sendActive(ctx, !from.isNow() && s.at != from)
}

// run sends what happens. It returns nil if the server ends the stream.
func (s *eventStream) run(ctx context.Context) error {
	end := time.Now().Add(s.streams.life)
	for time.Now().Before(end) {
		err := s.follow(ctx, min(s.streams.every, time.Until(end)))
		switch code := mailroom.CodeOf(err); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errHeartbeat):
			s.failures = 0
			err = s.send(ctx, noteHeartbeat, streamFrame{Cursor: s.at.String()})
		case s.tools.RetryUnavailable && (code == mailroom.CodeUnavailable || code == mailroom.CodeRateLimited):
			err = s.wait(ctx, err)
		case code == mailroom.CodeUnavailable: // within the server, which ends
			return s.end(ctx)
		default:
			return s.send(ctx, noteTerminated, streamFrame{Error: eventError(err)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end ends a stream whose source has ended. That may be because its token was revoked.
func (s *eventStream) end(ctx context.Context) error {
	b, err := s.box()
	if err == nil {
		_, err = b.open(ctx)
	}
	if err == nil {
		return nil
	}
	if e := eventError(err); e.Code == codeEventForbidden {
		return s.send(ctx, noteTerminated, streamFrame{Error: e})
	}
	return nil
}

// wait waits after a failure that may pass. It reports the first of several to the client.
func (s *eventStream) wait(ctx context.Context, failure error) error {
	if s.failures++; s.failures == 1 {
		if err := s.send(ctx, noteError, streamFrame{Error: eventError(failure)}); err != nil {
			return err
		}
	}
	if time.Since(s.sent) >= s.streams.every {
		if err := s.send(ctx, noteHeartbeat, streamFrame{Cursor: s.at.String()}); err != nil {
			return err
		}
	}
	pause := retry.Policy{First: time.Second, Factor: 2, Most: s.streams.every / 2}.Delay(s.failures, rand.Float64())
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follow sends the events of the inbox until it fails, or for a time, after which a heartbeat is due. Its error is not
// nil.
func (s *eventStream) follow(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errHeartbeat)
	defer cancel()
	b, err := s.box()
	if err != nil {
		return err
	}
	th, err := b.open(ctx)
	if err != nil {
		return causeOr(ctx, err)
	}
	if from := s.at.within(th); from != s.at {
		s.at = from
		if err := s.sendActive(ctx, true); err != nil {
			return err
		}
	}
	for ev, err := range b.c.Follow(ctx, client.FollowQuery{Thread: b.thread, After: s.at.position()}) {
		switch {
		case err != nil:
			return err
		case ev.Gap != nil:
			s.at.seq = min(max(ev.Gap.Oldest-1, 0), ev.Gap.Last)
			err = s.sendActive(ctx, true)
		case ev.Entry != nil:
			err = s.entry(ctx, b, ev.Entry)
		}
		if err != nil {
			return causeOr(ctx, err)
		}
	}
	return mailroom.Errorf(mailroom.CodeUnavailable, "the stream of thread %q ended", b.thread)
}

// entry sends the event that an entry is. The place moves after the event was sent, so an event may come again and is
// not lost.
func (s *eventStream) entry(ctx context.Context, b *box, e *mailroom.Entry) error {
	next, isNew := s.at.after(e)
	if !isNew {
		s.at = next
		return nil
	}
	if e.At.Before(s.oldest) {
		s.at = next
		return s.sendActive(ctx, true)
	}
	one := []occurrence{{ID: next.run, Name: EventWaiting, Timestamp: e.At}}
	if err := b.fill(ctx, one); err != nil {
		return err
	}
	if err := s.send(ctx, noteEvent, streamFrame{occurrence: &one[0], Cursor: next.String()}); err != nil {
		return err
	}
	s.at = next
	return nil
}

// causeOr returns the cause of a context that has ended, else err.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
