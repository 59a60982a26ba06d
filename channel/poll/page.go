package poll

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// parsePage parses a page: a list of rows, or an object that contains one. It returns the rows in
// the order they were written, also if the server lists the newest first.
func parsePage(raw []byte) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err == nil {
		return sortAscending(rows), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, errors.New("invalid page: not JSON")
	}
	for _, name := range []string{"activities", "activity", "rows", "items", "messages", "data"} {
		if inner, ok := object[name]; ok && json.Unmarshal(inner, &rows) == nil {
			return sortAscending(rows), nil
		}
	}
	if parseBool(object["timeout"]) {
		return nil, nil
	}
	return nil, errors.New("invalid page: no list of rows")
}

// sortAscending returns the rows in the order they were written. It reverses the page if a majority
// of neighbouring rows is in descending order. So a single row without a time, or with a wrong one,
// does not decide.
func sortAscending(rows []json.RawMessage) []json.RawMessage {
	votes, before := 0, rowTime{}
	for _, raw := range rows {
		var p rowTime
		if json.Unmarshal(raw, &p) != nil || p.CreatedAt.IsZero() && p.Seq <= 0 {
			continue // the row has no usable time
		}
		votes += before.compare(p)
		before = p
	}
	if votes > 0 {
		slices.Reverse(rows)
	}
	return rows
}

// rowTime is when a row was written.
type rowTime struct {
	CreatedAt time.Time `json:"created_at"`
	Seq       int64     `json:"seq"`
}

// compare returns +1 if p was written after q, -1 if before, and 0 if unknown.
func (p rowTime) compare(q rowTime) int {
	if !p.CreatedAt.IsZero() && !q.CreatedAt.IsZero() && !p.CreatedAt.Equal(q.CreatedAt) {
		return p.CreatedAt.Compare(q.CreatedAt)
	}
	if p.Seq > 0 && q.Seq > 0 {
		return cmp.Compare(p.Seq, q.Seq)
	}
	return 0
}
