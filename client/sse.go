package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"mailroom"
	"mailroom/api"
)

var errSilent = errors.New("the stream fell silent")

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
	case api.EventEntry:
		out.Entry = &mailroom.Entry{}
		err = json.Unmarshal(ev.data, out.Entry)
		out.Thread = out.Entry.Thread
	case api.EventDelta:
		var in api.ThreadDelta
		err = json.Unmarshal(ev.data, &in)
		out.Delta, out.Thread = &in.Delta, in.Thread
	case api.EventGap:
		out.Gap = &api.Gap{}
		err = json.Unmarshal(ev.data, out.Gap)
	default:
		return Event{}, nil
	}
	if err != nil {
		return Event{}, mailroom.Errorf(mailroom.CodeInternal, "read an event of the stream: %w", err)
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
