package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/server/ws"
	"mailroom/stream"
)

func (rt router) describeStreamAll() {
	op := rt.operation(auth.PermissionRead, "GET /v1/stream", "stream-all",
		"Stream new entries and live text of all threads")
	op.Description += " Events: entry and gap, with an id to resume after, and delta with its thread and without an id. " +
		"Each entry comes once, in the order of its thread; threads have no order among each other. " +
		"Live text is that of runs on this server. " +
		"An id without an event moves the position only. " +
		"gap: retention has removed entries behind the id, or the id is of another store; the stream goes on. " +
		"Comments every 10 seconds."
	op.Parameters = []*huma.Param{
		{Name: "Last-Event-ID", In: "header", Schema: anyText(), Description: "Continue after this event; overrides after."},
		{Name: "after", In: "query", Schema: anyText(),
			Description: "The id of an event of this stream. Default: from now on."},
	}
	op.Responses["200"] = &huma.Response{Description: "OK",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: anyText()}}}
	rt.describe(&op)
}

func (h *streamHandlers) streamAll(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	who := requestOf(r.Context()).who
	release, after, err := h.admitStreamAll(r, who)
	if err != nil {
		refuse(out, r, err)
		return
	}
	defer release()
	// Open before the response starts, so that a client that has read its header misses nothing.
	all, err := h.streams.OpenAll(r.Context(), stream.AllQuery{After: after, CanSee: who.CanSee})
	if err != nil {
		refuse(out, r, err)
		return
	}
	defer all.Close()
	h.followStream(out, r, ws.Start{After: all.Cursor().String(), Ack: true}, func(ctx context.Context, a ws.Sink) error {
		return all.Follow(ctx, a.SendAll)
	})
}

func (h *streamHandlers) admitStreamAll(
	r *http.Request, who *auth.Token,
) (release func(), after stream.AllCursor, err error) {
	switch {
	case h.bus == nil:
		return nil, after, mailroom.Errorf(mailroom.CodeNotFound, "the stream of all threads is disabled on this server")
	case h.life.closing.Err() != nil:
		return nil, after, errShutdown()
	}
	if err := checkQuery(r.URL.Query(), []string{"after"}); err != nil {
		return nil, after, err
	}
	location, value, err := resumeAfter(r)
	if err != nil {
		return nil, after, err
	}
	if value != "" {
		if after, err = stream.ParseAllCursor(value); err != nil {
			return nil, after, request.Invalid(location, "must be the id of an event of this stream", value)
		}
	}
	release, err = h.slots.acquire(who.Name)
	return release, after, err
}

// SendAll implements [ws.Sink].
func (w *eventWriter) SendAll(e stream.AllEvent) error {
	name, data, err := ws.AllEventData(e)
	if err != nil {
		return err
	}
	if e.Delta != nil {
		if data, err = json.Marshal(api.ThreadDelta{Thread: e.Thread, Delta: *e.Delta}); err != nil {
			return err
		}
		return w.write(len(data), func(b *bytes.Buffer) error { writeEvent(b, name, "", data); return nil })
	}
	return w.write(len(data), func(b *bytes.Buffer) error {
		if name == "" {
			b.WriteString("id: " + e.Cursor.String() + "\n\n")
			return nil
		}
		writeEvent(b, name, e.Cursor.String(), data)
		return nil
	})
}
