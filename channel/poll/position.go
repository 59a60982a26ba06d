package poll

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// position is the read cursor and the rows not handled yet. It is saved with every submit.
type position struct {
	Since string `json:"since_id,omitempty"` // id of the last row read
	// Done is the highest seq up to which every row is handled. It is what acknowledge sends; 0 for
	// none.
	Done int64     `json:"done,omitempty"`
	Rows []pending `json:"rows,omitempty"` // sorted by Seq
}

// pending is a row whose run or delivery has not ended.
type pending struct {
	Seq    int64  `json:"seq"`
	Thread string `json:"thread"`
	Key    string `json:"key"`
	// Above is the highest handled seq between this row and the next one, or 0. It cannot be
	// acknowledged before this row.
	Above int64 `json:"above,omitempty"`
}

func parsePosition(raw json.RawMessage) (p position, err error) {
	if len(raw) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("read the saved position: %w", err)
	}
	return p, nil
}

func (p position) encode() ([]byte, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the position: %w", err)
	}
	return raw, nil
}

// add returns p with a submitted row. A row without a seq, and one that is already listed, change
// nothing.
func (p position) add(n pending) position {
	i, there := slices.BinarySearchFunc(p.Rows, n.Seq, func(q pending, seq int64) int { return cmp.Compare(q.Seq, seq) })
	if there || n.Seq == 0 {
		return p
	}
	p.Rows = slices.Insert(slices.Clone(p.Rows), i, n)
	if i > 0 && p.Rows[i-1].Above > n.Seq { // the row arrived after rows with a higher seq
		p.Rows[i].Above, p.Rows[i-1].Above = p.Rows[i-1].Above, 0
	}
	return p
}

// removeHandled returns p without the rows that are handled.
func (p position) removeHandled(handled func(pending) bool) position {
	var rows []pending
	for _, r := range p.Rows {
		if !handled(r) {
			rows = append(rows, r)
			continue
		}
		below := &p.Done
		if len(rows) > 0 {
			below = &rows[len(rows)-1].Above
		}
		*below = max(*below, r.Seq, r.Above)
	}
	p.Rows = rows
	return p
}
