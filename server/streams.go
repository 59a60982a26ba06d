package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/internal/recovery"
	"mailroom/server/internal/request"
	"mailroom/server/ws"
	"mailroom/stream"
)

// Streams is the part of [stream.Streams] that the server uses.
type Streams interface {
	Follow(ctx context.Context, q stream.Query, emit func(stream.Event) error) error
	Open(q stream.Query) *stream.Reader
	Ended(ctx context.Context, q stream.Query) (bool, error)
	OpenAll(ctx context.Context, q stream.AllQuery) (*stream.All, error)
}

// streamHandlers serve streams: of server-sent events, or over a socket.
type streamHandlers struct {
	streams   Streams
	bus       *bus.Bus // of the stream of all threads; nil disables it
	find      request.Lookup
	slots     *slots
	life      *lifecycle
	backlog   *request.Backlog
	heartbeat time.Duration
	log       *slog.Logger
}

// anyText returns a new string schema. Each parameter needs its own, because bounds are set per
// place.
func anyText() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

func (rt router) describeStream(path, id, inPath string, query ...string) {
	op := rt.operation(auth.PermissionRead, "GET "+path, id,
		"Stream entries and live text: first the stored ones, then new ones")
	op.Description += " Events: entry (id SEQ), delta (id SEQ:N) and gap; comments every 10 seconds. " +
		"204: the stream has ended."
	until := "When the stream ends: settled, once no run of the thread (or not the one in run) is queued, running or " +
		"waiting; waiting, also while the run waits for tickets. Absent: never."
	if inPath == "run" {
		until = "When the stream ends: settled, once the run has ended; waiting, also while it waits for tickets. " +
			"Default: settled."
		op.Description += " It ends with the run; until=waiting ends it at a wait too."
	}
	op.Parameters = []*huma.Param{
		{Name: inPath, In: "path", Required: true, Schema: anyText(), Description: "Id of a " + inPath + "."},
		{Name: "Last-Event-ID", In: "header", Schema: anyText(), Description: "Continue after this event; overrides after."},
		{Name: "until", In: "query", Description: until, Schema: &huma.Schema{Type: huma.TypeString,
			Enum: []any{string(stream.UntilSettled), string(stream.UntilWaiting)}}},
	}
	describes := map[string]string{
		"run": "Only entries and live text of this run of the thread. Absent: of all its runs.",
		"after": "Continue after this position, which is the id of an event: SEQ, or SEQ:N for N bytes into the text of " +
			"the message that comes after the entry SEQ. Default: the first entry that the log has.",
	}
	for _, name := range append(query, "after") {
		op.Parameters = append(op.Parameters,
			&huma.Param{Name: name, In: "query", Description: describes[name], Schema: anyText()})
	}
	op.Responses["200"] = &huma.Response{Description: "OK",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: anyText()}}}
	op.Responses["204"] = &huma.Response{Description: "The stream has ended; do not reconnect."}
	rt.describe(&op)
}

func (h *streamHandlers) streamThread(w http.ResponseWriter, r *http.Request) {
	h.stream(w, r, func() (stream.Query, error) {
		id, err := ThreadPath{r.PathValue("thread")}.id()
		if err != nil {
			return stream.Query{}, err
		}
		t, err := h.find.Thread(r.Context(), id)
		if err != nil {
			return stream.Query{}, err
		}
		return stream.Query{Thread: id, Key: t.Key, Run: r.URL.Query().Get("run")}, nil
	}, "run", "after", "until")
}

func (h *streamHandlers) streamRun(w http.ResponseWriter, r *http.Request) {
	h.stream(w, r, func() (stream.Query, error) {
		id := r.PathValue("run")
		_, t, err := h.find.ShownRunIf(r.Context(), id, func(*mailroom.Run) bool { return false })
		if err != nil {
			return stream.Query{}, err
		}
		q := stream.Query{Thread: t.ID, Key: t.Key, Run: id, Until: stream.UntilSettled}
		if ws.SubscriptionOf(r.Context()) != nil { // a socket has other subscriptions, and goes on for a retry
			q.Until = stream.UntilForever
		}
		return q, nil
	}, "after", "until")
}

// stream serves the stream of the thread or run that target finds. params are the query parameters
// it accepts.
func (h *streamHandlers) stream(
	w http.ResponseWriter, r *http.Request, target func() (stream.Query, error), params ...string,
) {
	out := w.(*response) // ServeHTTP makes no other
	q, err := streamQuery(r, target, params)
	if err != nil {
		refuse(out, r, err)
		return
	}
	release, err := h.slots.acquire(requestOf(r.Context()).who.Name)
	if err != nil {
		refuse(out, r, err)
		return
	}
	defer release()
	// Open before the response starts, so that a client that has read its header misses no live text.
	reader := h.streams.Open(q)
	defer reader.Close()
	// Ended also checks that the thread and run exist, before the response starts.
	ended, err := h.streams.Ended(r.Context(), q)
	switch {
	case err == nil && h.life.closing.Err() != nil:
		err = errShutdown()
		fallthrough
	case err != nil:
		refuse(out, r, err)
		return
	case ended && ws.SubscriptionOf(r.Context()) == nil:
		out.WriteHeader(http.StatusNoContent)
		return
	}
	h.followStream(out, r, ws.Start{Query: q, After: q.After.String()}, func(ctx context.Context, a ws.Sink) error {
		return reader.Follow(ctx, a.SendEvent)
	})
}

func streamQuery(r *http.Request, target func() (stream.Query, error), params []string) (stream.Query, error) {
	given := r.URL.Query()
	if err := checkQuery(given, params); err != nil {
		return stream.Query{}, err
	}
	q, err := target()
	if err != nil {
		return q, err
	}
	if until := given.Get("until"); until != "" {
		q.Until = stream.Until(until)
	}
	if q.Until != stream.UntilForever && q.Until != stream.UntilSettled && q.Until != stream.UntilWaiting {
		return q, request.Invalid("query.until", "must be settled or waiting", string(q.Until))
	}
	location, value, err := resumeAfter(r)
	if err != nil || value == "" {
		return q, err
	}
	if q.After, err = stream.ParseCursor(value); err != nil {
		return q, request.Invalid(location, "must be SEQ or SEQ:N, as in the id of an event", value)
	}
	return q, nil
}

// resumeAfter returns the cursor that a request names, "" if none, and where it is.
func resumeAfter(r *http.Request) (location, value string, err error) {
	// set by a reconnecting client, so newer than the URL
	location, value = "header.Last-Event-ID", r.Header.Get("Last-Event-ID")
	if value == "" {
		location, value = "query.after", r.URL.Query().Get("after")
	}
	if len(value) > maxStreamCursor {
		return location, "", request.Invalid(location, fmt.Sprintf("is longer than %d characters", maxStreamCursor), nil)
	}
	return location, value, nil
}

// checkQuery refuses query parameters that are not in params.
func checkQuery(given url.Values, params []string) error {
	known := map[string]bool{}
	for _, p := range params {
		known[p] = true
	}
	for _, name := range slices.Sorted(maps.Keys(given)) { // the same answer each time
		if !known[name] {
			return request.Invalid("query."+request.Truncate(name), "unknown query parameter", nil)
		}
	}
	return nil
}

// followStream starts the response and lets feed send events until the stream ends, its reader goes
// or is too slow, or the server shuts down. The heartbeat has ended when it returns.
func (h *streamHandlers) followStream(
	out *response, r *http.Request, start ws.Start, feed func(context.Context, ws.Sink) error,
) {
	if sub := ws.SubscriptionOf(r.Context()); sub != nil {
		if err := sub.Follow(out, r, start, feed); err != nil {
			refuse(out, r, err)
		}
		return
	}
	out.Header().Set("Content-Type", "text/event-stream")
	out.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead { // a HEAD response has no body
		return
	}
	ctx, cancel := h.life.authorizedContext(r.Context())
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// A slow piece may take twice slowAfter, so that a comment can still say why the stream
	// ends.
	w := &eventWriter{
		out: out, slowAfter: out.timeout, who: requestOf(ctx).who.Name, done: ctx.Done(),
		backlog: h.backlog, pending: &request.Unread{Cut: out.cutOff},
	}
	out.timeout *= 2
	if err := w.flush(); err != nil {
		return // response keeps the error for the log line
	}
	beats := make(chan struct{})
	go func() {
		defer recovery.Handle(h.log, "stream heartbeat", func(p *recovery.Panic) { stop(p) })
		defer close(beats)
		w.heartbeat(ctx, stop, h.heartbeat)
	}()
	err := feed(ctx, w)
	stop(nil)
	<-beats
	if err != nil && out.failed == nil && r.Context().Err() == nil && h.life.closing.Err() == nil {
		problemFor(r.Context(), err) // the response has started, so only the log line can tell
	}
}

// eventWriter writes whole events and comments, one at a time. It cuts off a reader that needs
// longer than slowAfter for one.
type eventWriter struct {
	// Set once.
	slowAfter time.Duration
	who       string          // name of the token
	done      <-chan struct{} // closed when the stream ends
	backlog   *request.Backlog
	pending   *request.Unread

	mu  sync.Mutex
	out *response    // owned by mu
	buf bytes.Buffer // owned by mu
}

func (w *eventWriter) heartbeat(ctx context.Context, stop context.CancelCauseFunc, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := w.write(0, func(b *bytes.Buffer) error { b.WriteString(": still here\n\n"); return nil }); err != nil {
			stop(err)
			return
		}
	}
}

// SendEvent implements [ws.Sink].
func (w *eventWriter) SendEvent(e stream.Event) error {
	name, data, err := ws.EventData(e)
	if err != nil {
		return err
	}
	return w.write(len(data), func(b *bytes.Buffer) error {
		writeEvent(b, name, ws.EventID(e), data)
		return nil
	})
}

// writeEvent appends one event. An event without an id does not move the client's Last-Event-ID.
func writeEvent(b *bytes.Buffer, name, id string, data []byte) {
	b.WriteString("event: " + name)
	if id != "" {
		b.WriteString("\nid: " + id)
	}
	b.WriteString("\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
}

// write sends what fill builds, of about size bytes, once the backlog has room for it.
func (w *eventWriter) write(size int, fill func(*bytes.Buffer) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out.failed != nil {
		return w.out.failed
	}
	if !w.backlog.Acquire(w.pending, w.who, size, w.done) {
		return request.ErrReaderGone
	}
	defer w.backlog.Release(w.pending)
	w.buf.Reset()
	w.buf.Grow(size) // a buffer that grows by itself may take twice the size
	defer func() {
		if w.buf.Cap() > request.KeptBuffer {
			w.buf = bytes.Buffer{}
		}
	}()
	if err := fill(&w.buf); err != nil {
		return err
	}
	start := time.Now()
	err := w.writeAndFlush(w.buf.Bytes())
	switch {
	case err != nil && w.out.cut.Load():
		w.out.failed = request.ErrTooSlow
		return request.ErrTooSlow
	case err != nil || time.Since(start) <= w.slowAfter:
		return err
	}
	err = w.writeAndFlush([]byte(": cut off: reader too slow; reconnect with the last id\n\n"))
	w.out.failed = request.ErrTooSlow
	return cmp.Or(err, request.ErrTooSlow)
}

func (w *eventWriter) writeAndFlush(b []byte) error {
	if _, err := w.out.Write(b); err != nil {
		return err
	}
	return w.out.FlushError()
}

func (w *eventWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.FlushError()
}
