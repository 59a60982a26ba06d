package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// Until says when a stream ends by itself.
type Until string

// When a stream ends.
const (
	Forever      Until = ""        // with its reader
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
	Gap    *Gap
}

// Follow calls f with each event of a stream, in order, and returns nil when
// the stream has ended as Until says, f's error, or ctx's cause. Lost
// connections are made again from where the stream was, so each entry comes
// exactly once. Deltas are positional: the text of a message so far can come
// again from offset 0, after a new attempt for example.
func (c *Client) Follow(ctx context.Context, q FollowQuery, f func(Event) error) error {
	s := &follower{client: c, q: q, emit: f, again: c.newReconnect(), cursor: "0"}
	if q.After != "" {
		s.cursor = q.After
	}
	if q.Thread == "" && q.Run == "" {
		return mailroom.Errorf(mailroom.Invalid, "nothing to follow: name a thread or a run")
	}
	var ok bool
	if s.seq, ok = seqOf(s.cursor); !ok {
		return mailroom.Errorf(mailroom.Invalid, "%q is no place in a stream: give a seq, or the id of an event", q.After)
	}
	for {
		before := s.cursor
		ended, err := s.connect(ctx)
		if stop, ok := errors.AsType[*stopped](err); ok {
			return stop.err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ended {
			return nil
		}
		if err == nil && s.cursor != before {
			continue // it was closed in order: what is left, if anything, is there at once
		}
		if err == nil {
			err = mailroom.Errorf(mailroom.Unavailable, "the server at %s closed the stream", c.base)
		}
		if err := s.again.pause(ctx, err); err != nil {
			return err
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
	emit   func(Event) error
	again  *reconnect
	cursor string // id of the last event emitted
	seq    int64  // of the last entry emitted, or where the reader started
}

// stopped carries the caller's own error out of a connection.
type stopped struct{ err error }

func (s *stopped) Error() string { return s.err.Error() }

var errSilent = errors.New("the stream fell silent")

// connect follows over one connection. ended: the server says nothing is left.
func (s *follower) connect(ctx context.Context) (ended bool, err error) {
	return s.client.listen(ctx, s.request(), s.again.progress, s.event)
}

// listen reads events over one connection, until it breaks or emit fails. beat
// is called for heartbeats. ended: the server says nothing is left.
func (c *Client) listen(ctx context.Context, q request, beat func(), emit func(sseEvent) error) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(c.options.silence, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := c.send(ctx, q)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() // nothing depends on how the reading side is closed
	if resp.StatusCode == http.StatusNoContent {
		return true, nil
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxEventLine)
	var ev sseEvent
	for lines.Scan() {
		watch.Reset(c.options.silence)
		line := lines.Bytes()
		switch {
		case len(line) > 0 && line[0] == ':':
			beat()
		case len(line) > 0:
			ev.field(line)
		default:
			watch.Stop() // the caller may take its time
			if err := emit(ev); err != nil {
				return false, err
			}
			ev = sseEvent{}
			watch.Reset(c.options.silence)
		}
	}
	if err := lines.Err(); err != nil {
		return false, c.unanswered(ctx, err)
	}
	return false, nil
}

// maxEventLine bounds a line of a stream: an entry holds at most 4 MiB of
// request, and JSON escapes can make it six times as long.
const maxEventLine = 32 << 20

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
		return &stopped{mailroom.Errorf(mailroom.Internal, "read an event of the stream: its id %q is no place", ev.id)}
	}
	s.again.progress()
	if e := out.Entry; e != nil && e.Seq <= s.seq {
		return nil
	}
	if err := s.emit(out); err != nil {
		return &stopped{err}
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

// Stream calls f with each entry and delta of all threads from now on, and
// returns f's error, ctx's cause, or why it ended. It tells nothing twice and
// nothing that is past, so it does not connect again by itself: an Unavailable
// error says that the connection was lost, or that f was too slow and events
// were dropped. What happened meanwhile is in the threads' own streams.
func (c *Client) Stream(ctx context.Context, f func(Event) error) error {
	q := request{method: http.MethodGet, path: "/v1/stream", header: http.Header{"Accept": {"text/event-stream"}}}
	_, err := c.listen(ctx, q, func() {}, func(ev sseEvent) error {
		out, err := ev.decode()
		switch {
		case err != nil || out == (Event{}):
			return err
		case out.Gap != nil:
			return mailroom.Errorf(mailroom.Unavailable, "the stream was read too slowly, and events were dropped")
		}
		if err := f(out); err != nil {
			return &stopped{err}
		}
		return nil
	})
	if stop, ok := errors.AsType[*stopped](err); ok {
		return stop.err
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return mailroom.Errorf(mailroom.Unavailable, "the server at %s closed the stream", c.base)
	}
	return err
}

// sseEvent collects the fields of one event.
type sseEvent struct {
	name, id string
	data     []byte
}

// decode reads the event; one of a newer server is the zero Event.
func (ev *sseEvent) decode() (Event, error) {
	if ev.data == nil {
		return Event{}, nil
	}
	out := Event{ID: ev.id}
	var err error
	switch ev.name {
	case EventEntry:
		out.Entry = &mailroom.Entry{}
		err = json.Unmarshal(ev.data, out.Entry)
		out.Thread = out.Entry.Thread
	case EventDelta:
		var in ThreadDelta
		err = json.Unmarshal(ev.data, &in)
		out.Delta, out.Thread = &in.Delta, in.Thread
	case EventGap:
		out.Gap = &Gap{}
		err = json.Unmarshal(ev.data, out.Gap)
	default:
		return Event{}, nil
	}
	if err != nil {
		return Event{}, &stopped{mailroom.Errorf(mailroom.Internal, "read an event of the stream: %w", err)}
	}
	return out, nil
}

func (ev *sseEvent) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		ev.name = string(value)
	case "id":
		ev.id = string(value)
	case "data":
		if ev.data != nil {
			ev.data = append(ev.data, '\n')
		}
		ev.data = append(ev.data, value...)
	}
}

// reconnect decides whether and when to try again. It belongs to one call.
type reconnect struct {
	options   options
	pauses    interface{ NextBackOff() time.Duration }
	reset     func()
	connected bool      // was reached once
	failures  uint      // since the last progress
	since     time.Time // of the first of them
}

func (c *Client) newReconnect() *reconnect {
	b := c.pauses()
	return &reconnect{options: c.options, pauses: b, reset: b.Reset}
}

// progress notes that the server was heard.
func (r *reconnect) progress() {
	r.connected, r.failures = true, 0
	r.reset()
}

// pause waits before the next try, or returns the error to give up with.
func (r *reconnect) pause(ctx context.Context, err error) error {
	code := mailroom.CodeOf(err)
	if code != mailroom.Unavailable && code != mailroom.RateLimited {
		return err
	}
	if r.failures++; r.failures == 1 {
		r.since = time.Now()
	}
	away := time.Since(r.since)
	if !r.connected && r.failures >= r.options.tries {
		return err
	}
	if r.connected && r.options.patience > 0 && away > r.options.patience {
		return fmt.Errorf("gave up after %s: %w", away.Round(time.Second), err)
	}
	if ctx.Err() != nil {
		return err // which has the cause in its tree
	}
	wait := r.pauses.NextBackOff()
	if e, ok := errors.AsType[*mailroom.Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
}
