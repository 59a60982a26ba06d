package poll

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// parsePage reads an answer of the platform: a list of rows, or an object that has
// one. It brings the rows in the order in which they were written; a server that
// lists the newest first is read from its end.
func parsePage(raw []byte) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(raw, &rows); err == nil {
		return sortAscending(rows), nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, errors.New("the page is not JSON")
	}
	for _, name := range []string{"activities", "activity", "rows", "items", "messages", "data"} {
		if inner, ok := object[name]; ok && json.Unmarshal(inner, &rows) == nil {
			return sortAscending(rows), nil
		}
	}
	if parseBool(object["timeout"]) {
		return nil, nil
	}
	return nil, errors.New("the page is no list of rows")
}

// sortAscending brings rows into the order in which they were written. The rows vote: each
// one that is older than the row before it is a vote for a page that lists the newest
// first. So no single row decides, whether it has no time, or a wrong one.
func sortAscending(rows []json.RawMessage) []json.RawMessage {
	votes, before := 0, rowTime{}
	for _, raw := range rows {
		var p rowTime
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

// rowTime is what a row says of when it was written.
type rowTime struct {
	CreatedAt time.Time `json:"created_at"`
	Seq       int64     `json:"seq"`
}

// compare is +1 if p was written after q, -1 if before, and 0 if the two do not say.
func (p rowTime) compare(q rowTime) int {
	if !p.CreatedAt.IsZero() && !q.CreatedAt.IsZero() && !p.CreatedAt.Equal(q.CreatedAt) {
		return p.CreatedAt.Compare(q.CreatedAt)
	}
	if p.Seq > 0 && q.Seq > 0 {
		return cmp.Compare(p.Seq, q.Seq)
	}
	return 0
}
