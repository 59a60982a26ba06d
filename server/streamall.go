package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/server/ws"
	"mailroom/stream"
)

// noticeBuffer is how many notices a reader of the stream of all threads may lag behind.
const noticeBuffer = 1024

func (rt router) describeStreamAll() {
	text := &huma.Schema{Type: huma.TypeString}
	op := rt.operation(auth.PermissionRead, "GET /v1/stream", "stream-all", "Stream new entries and live text of all threads")
	op.Description = "Events: entry, and delta with its thread; none has an id, because threads have no common order. " +
		"A reader that is too slow gets the event gap, and the stream ends. Comments every 10 seconds."
	op.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: text}}}
	rt.api.OpenAPI().AddOperation(&op)
}

func (h *streamHandlers) streamAll(w http.ResponseWriter, r *http.Request) {
	out := w.(*response) // ServeHTTP makes no other
	release, err := h.admitStreamAll(r)
	if err != nil {
		refuse(out, r, err)
		return
	}
	defer release()
	// Subscribe before the response starts, so that a client that has read its header misses
	// nothing.
	sub := h.bus.Subscribe("", noticeBuffer)
	defer sub.Close()
	sight := h.find.newNoticeFilter(requestOf(r.Context()).who)
	h.followStream(out, r, stream.Query{}, func(ctx context.Context, a ws.Sink) error { return forwardNotices(ctx, sub, sight, a) })
}

func (h *streamHandlers) admitStreamAll(r *http.Request) (release func(), err error) {
	switch {
	case h.bus == nil:
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "the stream of all threads is disabled on this server")
	case h.life.closing.Err() != nil:
		return nil, errShutdown()
	}
	if err := checkQuery(r.URL.Query(), nil); err != nil {
		return nil, err
	}
	return h.slots.acquire(requestOf(r.Context()).who.Name)
}

// forwardNotices sends the notices that the reader may see, until ctx ends or the reader falls too
// far behind.
func forwardNotices(ctx context.Context, sub *bus.Subscription, sight *noticeFilter, a ws.Sink) error {
	for {
		var n bus.Notice
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case n = <-sub.C:
		}
		if sub.Lost() { // n may belong to a thread whose first entry was dropped
			return a.SendGap()
		}
		if good, err := sight.allows(ctx, n); err != nil {
			return err
		} else if !good {
			continue
		}
		if err := a.SendNotice(n); err != nil {
			return err
		}
	}
}

func (w *eventWriter) SendGap() error {
	return w.write(0, func(b *bytes.Buffer) error {
		data, err := json.Marshal(api.Gap{})
		writeEvent(b, api.EventGap, "", data)
		return err
	})
}

// SendNotice writes the events of one notice as one piece.
func (w *eventWriter) SendNotice(n bus.Notice) error {
	size := 0
	for i := range n.Entries {
		size += len(n.Entries[i].Raw)
	}
	if n.Delta != nil {
		size += len(n.Delta.Text)
	}
	return w.write(size, func(b *bytes.Buffer) error {
		for i := range n.Entries {
			data, err := n.Entries[i].MarshalJSON()
			if err != nil {
				return fmt.Errorf("encode entry: %w", err)
			}
			writeEvent(b, api.EventEntry, "", data)
		}
		if n.Delta == nil {
			return nil
		}
		data, err := json.Marshal(api.ThreadDelta{Thread: n.Thread, Delta: *n.Delta})
		if err != nil {
			return fmt.Errorf("encode delta: %w", err)
		}
		writeEvent(b, api.EventDelta, "", data)
		return nil
	})
}
