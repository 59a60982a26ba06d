package ws

import (
	"encoding/json"
	"fmt"
	"strconv"

	"mailroom"
	"mailroom/api"
	"mailroom/stream"
)

// EventID returns the cursor after e. A delta's id always has ":N", so that it differs from the id
// of an entry.
func EventID(e stream.Event) string {
	if e.Delta != nil {
		return strconv.FormatInt(e.Cursor.Seq, 10) + ":" + strconv.Itoa(e.Cursor.Bytes)
	}
	return e.Cursor.String()
}

// AllEventData returns the name and the JSON of an event of the stream of all threads, "" if only the
// cursor has moved.
func AllEventData(e stream.AllEvent) (name string, data []byte, err error) {
	switch {
	case e.Gap:
		return EventData(stream.Event{Gap: &stream.Gap{}})
	case e.Entry == nil && e.Delta == nil:
		return "", nil, nil
	}
	return EventData(stream.Event{Entry: e.Entry, Delta: e.Delta})
}

// EventData returns the name and the JSON of an event.
func EventData(e stream.Event) (name string, data []byte, err error) {
	switch {
	case e.Entry != nil:
		name, data = api.EventEntry, e.Entry.Raw
		if data == nil {
			data, err = json.Marshal(e.Entry)
		}
	case e.Delta != nil:
		name = api.EventDelta
		data, err = json.Marshal(e.Delta)
	case e.Gap != nil:
		name = api.EventGap
		data, err = json.Marshal(e.Gap)
	default:
		err = mailroom.Errorf(mailroom.CodeInternal, "empty event")
	}
	if err != nil {
		return "", nil, fmt.Errorf("encode event: %w", err)
	}
	return name, data, nil
}
