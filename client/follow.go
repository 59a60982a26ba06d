package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/api"
)

// Until says when a stream ends by itself.
type Until string

// When a stream ends.
const (
	UntilForever Until = ""        // with its reader
	UntilSettled Until = "settled" // after completed, failed or cancelled; for a thread, when nothing is left to do
	UntilWaiting Until = "waiting" // also when it waits
)

// FollowQuery names what Follow follows: a thread, or a run. With both, the run
// must be of the thread.
type FollowQuery struct {
	Thread string
	Run    string
	After  string // "" and "0" mean from the start; else the ID of the last event that is known
	Until  Until
}

// Event is one event of a stream: exactly one of Entry, Delta and Gap is set.
// ID resumes behind it ("SEQ", or "SEQ:N" behind a delta); events of
// [Client.Stream] have none.
type Event struct {
	ID     string
	Thread string // of the entry or, from Stream, of the delta
	Entry  *mailroom.Entry
	Delta  *mailroom.Delta
	Gap    *api.Gap
}

// Follow iterates over the events of a stream, in order. Lost connections are
// made again from where the stream was, after a pause that grows and is never
// shorter than the server's Retry-After, so each entry comes exactly once.
// Deltas are positional: the text of a message so far can come again from offset
// 0, after a new attempt for example.
//
// The iteration ends when the stream has ended as Until says. An error comes
// last, once, beside the zero Event: ctx's cause, or an *[mailroom.Error] whose
// code says why there is no going on. Leaving the loop closes the connection;
// each range over the result begins at q.After anew.
func (c *Client) Follow(ctx context.Context, q FollowQuery) iter.Seq2[Event, error] {
	return sequence(func(yield func(Event) bool) error {
		if q.Thread == "" && q.Run == "" {
			return mailroom.Errorf(mailroom.CodeInvalid, "nothing to follow: name a thread or a run")
		}
		s := &follower{client: c, q: q, yield: yield, again: c.newReconnect(), cursor: "0"}
		if q.After != "" {
			s.cursor = q.After
		}
		var ok bool
		if s.seq, ok = seqOf(s.cursor); !ok {
			return mailroom.Errorf(mailroom.CodeInvalid, "%q is no place in a stream: give a seq, or the id of an event", q.After)
		}
		return s.follow(ctx)
	})
}

// errLeft ends a connection whose reader has left its loop.
var errLeft = errors.New("the reader has left")

// sequence is the iterator over what f yields, with f's error behind it unless
// it is errLeft.
func sequence(f func(yield func(Event) bool) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := f(func(ev Event) bool { return yield(ev, nil) })
		if err != nil && err != errLeft {
			yield(Event{}, err) // the last: whether more is wanted does not matter
		}
	}
}

// seqOf returns the seq of a place in a stream, "SEQ" or "SEQ:N".
func seqOf(place string) (seq int64, ok bool) {
	first, n, more := strings.Cut(place, ":")
	if strings.Trim(first+n, "0123456789") != "" || more && n == "" {
		return 0, false
	}
	seq, err := strconv.ParseInt(first, 10, 64)
	return seq, err == nil
}

// follower is the state of one Follow. It belongs to the goroutine that called it.
type follower struct {
	client *Client
	q      FollowQuery
	yield  func(Event) bool
	again  *reconnect
	cursor string // id of the last event emitted
	seq    int64  // of the last entry emitted, or where the reader started
}

// follow connects until nothing is left, or until there is no going on.
func (s *follower) follow(ctx context.Context) error {
	for {
		before := s.cursor
		ended, err := s.connect(ctx)
		switch {
		case err == errLeft:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ended:
			s.again.progress()
			return nil
		case err == nil && s.cursor != before:
			continue // it was closed in order: what is left, if anything, is there at once
		case err == nil:
			err = s.client.closedByServer()
		}
		if err := s.again.pause(ctx, err); err != nil {
			return err
		}
	}
}

func (c *Client) closedByServer() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "the server at %s closed the stream", c.base)
}

// connect follows over one connection. ended: the server says nothing is left.
func (s *follower) connect(ctx context.Context) (ended bool, err error) {
	return s.client.listen(ctx, s.request(), s.again.progress, s.event)
}

func (s *follower) request() request {
	q := request{method: http.MethodGet, query: url.Values{}, header: http.Header{
		"Accept":        {"text/event-stream"},
		"Last-Event-Id": {s.cursor},
	}}
	if s.q.Thread != "" {
		q.path = path("v1", "threads", s.q.Thread, "stream")
		put(q.query, "run", s.q.Run)
	} else {
		q.path = path("v1", "runs", s.q.Run, "stream")
	}
	put(q.query, "until", string(s.q.Until))
	return q
}

func (s *follower) event(ev sseEvent) error {
	out, err := ev.decode()
	if err != nil || out == (Event{}) {
		return err
	}
	if _, ok := seqOf(ev.id); ev.id != "" && !ok { // nothing could go on from there
		return mailroom.Errorf(mailroom.CodeInternal, "read an event of the stream: its id %q is no place", ev.id)
	}
	s.again.progress()
	if e := out.Entry; e != nil && e.Seq <= s.seq {
		return nil
	}
	if !s.yield(out) {
		return errLeft
	}
	if ev.id != "" {
		s.cursor = ev.id
	}
	switch {
	case out.Entry != nil:
		s.seq = out.Entry.Seq
	case out.Gap != nil && out.Gap.After > out.Gap.Last:
		s.seq = out.Gap.Last // the cursor was ahead of the log: seqs below it are new
	}
	return nil
}

// Stream iterates over the entries and deltas of all threads from now on. It
// ends with an error: ctx's cause, or why it ended. It tells nothing twice and
// nothing that is past, so it does not connect again by itself: an Unavailable
// error says that the connection was lost, or that it was read too slowly and
// events were dropped. What happened meanwhile is in the threads' own streams.
func (c *Client) Stream(ctx context.Context) iter.Seq2[Event, error] {
	return sequence(func(yield func(Event) bool) error {
		q := request{method: http.MethodGet, path: "/v1/stream", header: http.Header{"Accept": {"text/event-stream"}}}
		_, err := c.listen(ctx, q, func() {}, func(ev sseEvent) error {
			out, err := ev.decode()
			switch {
			case err != nil || out == (Event{}):
				return err
			case out.Gap != nil:
				return mailroom.Errorf(mailroom.CodeUnavailable, "the stream was read too slowly, and events were dropped")
			case !yield(out):
				return errLeft
			}
			return nil
		})
		switch {
		case err == errLeft:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return c.closedByServer()
		}
		return err
	})
}
