package poll

import (
	"cmp"
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

// ascending brings rows into the order in which they were written. The rows vote: each
// one that is older than the row before it is a vote for a page that lists the newest
// first. So no single row decides, whether it has no time, or a wrong one.
func ascending(rows []json.RawMessage) []json.RawMessage {
	votes, before := 0, place{}
	for _, raw := range rows {
		var p place
		if json.Unmarshal(raw, &p) != nil || p.CreatedAt.IsZero() && p.Seq <= 0 {
			continue // it says nothing of its place
		}
		votes += before.compare(p)
		before = p
	}
	if votes > 0 {
		slices.Reverse(rows)
	}
	return rows
}

// place is what a row says of when it was written.
type place struct {
	CreatedAt time.Time `json:"created_at"`
	Seq       int64     `json:"seq"`
}

// compare is +1 if p was written after q, -1 if before, and 0 if the two do not say.
func (p place) compare(q place) int {
	if !p.CreatedAt.IsZero() && !q.CreatedAt.IsZero() && !p.CreatedAt.Equal(q.CreatedAt) {
		return p.CreatedAt.Compare(q.CreatedAt)
	}
	if p.Seq > 0 && q.Seq > 0 {
		return cmp.Compare(p.Seq, q.Seq)
	}
	return 0
}
