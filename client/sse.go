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

var errIdle = errors.New("the stream delivered nothing for too long")

// listen reads events over one connection, until it breaks or emit fails. It calls
// onHeartbeat for each heartbeat. ended reports that the server ended the stream.
func (c *Client) listen(
	ctx context.Context, q request, onHeartbeat func(), emit func(sseEvent) error,
) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(c.options.idle, func() { cancel(errIdle) })
	defer watch.Stop()
	resp, err := c.send(ctx, q)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() // an error of Close has no effect: the body is not read any more
	if resp.StatusCode == http.StatusNoContent {
		return true, nil
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxEventLine)
	var ev sseEvent
	for lines.Scan() {
		watch.Reset(c.options.idle)
		line := lines.Bytes()
		switch {
		case len(line) > 0 && line[0] == ':':
			onHeartbeat()
		case len(line) > 0:
			ev.field(line)
		default:
			watch.Stop() // the time that the caller needs does not count
			if err := emit(ev); err != nil {
				return false, err
			}
			ev = sseEvent{}
			watch.Reset(c.options.idle)
		}
	}
	if err := lines.Err(); err != nil {
		return false, c.unanswered(ctx, err)
	}
	return false, nil
}

// maxEventLine bounds a line of a stream, in bytes: an entry has at most 4 MiB, and
// JSON escapes can make it six times as long.
const maxEventLine = 32 << 20

// sseEvent collects the fields of one event.
type sseEvent struct {
	name, id string
	data     []byte
}

// decode returns the event, or the zero Event for a kind that this client does not know.
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
