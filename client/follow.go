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
	"mailroom/entry"
)

// Until says when a stream ends by itself.
type Until string

// The conditions that end a stream.
const (
	UntilForever Until = ""        // never: the reader ends it
	UntilSettled Until = "settled" // the run has finished; for a thread, it is idle
	UntilWaiting Until = "waiting" // as UntilSettled, or until the run waits
)

// FollowQuery selects what Follow follows: a thread, or a run. With both, the run
// must belong to the thread.
type FollowQuery struct {
	Thread string
	Run    string
	After  string // ID of the last known event; "" and "0": from the start
	Until  Until
}

// Event is one event of a stream: exactly one of Entry, Delta and Gap is set. ID is the cursor after it ("SEQ", or
// "SEQ:N" after a delta). In events of [Client.Stream], ID is opaque, a delta has no ID, and a Gap has no numbers.
type Event struct {
	ID     string
	Thread string // thread of the entry or, from Stream, of the delta
	Entry  *mailroom.Entry
	Delta  *entry.Delta
	Gap    *api.Gap
}

// Follow iterates over the events of a stream, in order. It reconnects after a lost
// connection and resumes at its cursor, so each entry comes exactly once. The backoff
// is exponential and at least the server's Retry-After. Deltas are positional: the
// text of a message can come again from offset 0, for example after a new attempt.
//
// The iteration ends as q.Until says. An error comes last, once, with the zero Event:
// ctx's cause, or an *[mailroom.Error]. Breaking out of the loop closes the
// connection; each range over the result starts at q.After.
func (c *Client) Follow(ctx context.Context, q FollowQuery) iter.Seq2[Event, error] {
	return sequence(func(yield func(Event) bool) error {
		if q.Thread == "" && q.Run == "" {
			return mailroom.Errorf(mailroom.CodeInvalid, "nothing to follow: name a thread or a run")
		}
		s := &follower{client: c, q: q, yield: yield, retry: c.newReconnect(), cursor: "0"}
		if q.After != "" {
			s.cursor = q.After
		}
		var ok bool
		if s.seq, ok = seqOf(s.cursor); !ok {
			return mailroom.Errorf(mailroom.CodeInvalid, "%q is not a position in a stream: give a seq, or the id of an event",
				q.After)
		}
		return s.follow(ctx)
	})
}

// errBreak ends a connection whose reader has broken out of its loop.
var errBreak = errors.New("the reader broke out of the loop")

// sequence returns the iterator over the events that f yields. The last element is f's error, unless that is
// errBreak.
func sequence(f func(yield func(Event) bool) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := f(func(ev Event) bool { return yield(ev, nil) })
		if err != nil && err != errBreak {
			yield(Event{}, err) // the last element, so the result of yield does not matter
		}
	}
}

// seqOf returns the seq of a cursor, "SEQ" or "SEQ:N".
func seqOf(cursor string) (seq int64, ok bool) {
	first, n, more := strings.Cut(cursor, ":")
	if strings.Trim(first+n, "0123456789") != "" || more && n == "" {
		return 0, false
	}
	seq, err := strconv.ParseInt(first, 10, 64)
	return seq, err == nil
}

// follower is the state of one Follow. The calling goroutine owns it.
type follower struct {
	client *Client
	q      FollowQuery
	yield  func(Event) bool
	retry  *reconnect
	cursor string // id of the last event emitted
	seq    int64  // seq of the last emitted entry, or of q.After
}

// follow connects until the stream has ended, or until a retry would be useless.
func (s *follower) follow(ctx context.Context) error {
	return s.client.resume(ctx, s.retry, &s.cursor, s.request, s.event)
}

// resume reads the stream over one connection after another, until the stream has ended or a retry would be useless.
// cursor is the position from which it reads; emit moves it.
func (c *Client) resume(
	ctx context.Context, retry *reconnect, cursor *string, next func() request, emit func(sseEvent) error,
) error {
	for {
		before := *cursor
		ended, err := c.listen(ctx, next(), retry.progress, emit)
		switch {
		case err == errBreak:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ended:
			retry.progress()
			return nil
		case err == nil && *cursor != before:
			continue // a clean close after progress: reconnect at once
		case err == nil:
			err = c.closedByServer()
		}
		switch err := retry.pause(ctx, err); {
		case err == nil:
		case ctx.Err() != nil: // ctx ended during the pause
			return context.Cause(ctx)
		default:
			return err
		}
	}
}

func (c *Client) closedByServer() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "the server at %s closed the stream", c.base)
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
	if _, ok := seqOf(ev.id); ev.id != "" && !ok { // a reconnect could not resume after such an id
		return mailroom.Errorf(mailroom.CodeInternal, "read an event of the stream: its id %q is not a position", ev.id)
	}
	s.retry.progress()
	if e := out.Entry; e != nil && e.Seq <= s.seq {
		return nil
	}
	if !s.yield(out) {
		return errBreak
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

// Stream iterates over the entries and deltas of all threads after the Event.ID of an
// entry or gap, or from now on with "". It reconnects as Follow does, also to another
// server on the same store, so each entry comes exactly once. Entries of a thread come
// in the order of its log. After a Gap, entries are missing: the server no longer has
// them, or after names a position in another store. Deltas are those of runs on the
// server that is connected.
//
// The iteration ends as Follow's does.
func (c *Client) Stream(ctx context.Context, after string) iter.Seq2[Event, error] {
	return sequence(func(yield func(Event) bool) error {
		cursor, retry := after, c.newReconnect()
		next := func() request {
			q := request{method: http.MethodGet, path: "/v1/stream", header: http.Header{"Accept": {"text/event-stream"}}}
			if cursor != "" {
				q.header.Set("Last-Event-ID", cursor)
			}
			return q
		}
		return c.resume(ctx, retry, &cursor, next, func(ev sseEvent) error {
			out, err := ev.decode()
			if err != nil {
				return err
			}
			retry.progress()
			if out != (Event{}) && !yield(out) {
				return errBreak
			}
			if ev.id != "" { // the id counts also without an event
				cursor = ev.id
			}
			return nil
		})
	})
}
