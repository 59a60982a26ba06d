package poll

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// readPage reads an answer of the platform: a list of rows, or an object that has
// one. It brings the rows in the order in which they were written; a server that
// lists the newest first is read from its end.
func readPage(raw []byte) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err == nil {
		return ascending(rows), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, errors.New("the page is not JSON")
	}
	for _, name := range []string{"activities", "activity", "rows", "items", "messages", "data"} {
		if inner, ok := object[name]; ok && json.Unmarshal(inner, &rows) == nil {
			return ascending(rows), nil
		}
	}
	if truth(object["timeout"]) {
		return nil, nil
	}
	return nil, errors.New("the page is no list of rows")
}

func ascending(rows []json.RawMessage) []json.RawMessage {
	type place struct {
		CreatedAt time.Time `json:"created_at"`
		Seq       int64     `json:"seq"`
	}
	var first, last place
	if len(rows) < 2 || json.Unmarshal(rows[0], &first) != nil || json.Unmarshal(rows[len(rows)-1], &last) != nil {
		return rows
	}
	later := first.CreatedAt.Compare(last.CreatedAt)
	if later > 0 || later == 0 && first.Seq > last.Seq && last.Seq > 0 {
		slices.Reverse(rows)
	}
	return rows
}
