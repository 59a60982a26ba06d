package board

import (
	"encoding/json"
	"fmt"
	"maps"

	"mailroom/channel"
)

// position is the cursor of a board: the claims that the feed still follows, by the ids of their issues. It moves in
// the transaction of each submit. The status of a claim's run is in the ledger alone.
type position struct {
	Claims map[string]claim `json:"claims"`
}

// claim is an issue that was submitted.
type claim struct {
	Key    string `json:"key"` // submit key of the run
	Native string `json:"native"`
	Told   string `json:"told"` // digest of the content that the agent got last
	// Ended is the attempt of the run whose end a mark shows; 0: none.
	Ended int `json:"ended,omitempty"`
}

// cursorIdentity is the cursor's identity. It does not depend on the account, because the claims belong to the board,
// and another token may read it.
const cursorIdentity = "board"

// maxFollowed bounds the claims whose end is recorded and that are followed for a retry of their run.
const maxFollowed = 500

func parsePosition(raw json.RawMessage) (p position, err error) {
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &p); err != nil {
			return p, channel.Fatal(fmt.Errorf("decode the claims that this board keeps in its cursor: %w", err))
		}
	}
	if p.Claims == nil {
		p.Claims = map[string]claim{}
	}
	return p, nil
}

// with returns a copy of p with a claim, and its cursor.
func (p position) with(id string, c claim) (position, channel.Cursor, error) {
	next := position{Claims: maps.Clone(p.Claims)}
	next.Claims[id] = c
	cursor, err := next.cursor()
	return next, cursor, err
}

// without returns a copy of p without a claim, and its cursor.
func (p position) without(id string) (position, channel.Cursor, error) {
	next := position{Claims: maps.Clone(p.Claims)}
	delete(next.Claims, id)
	cursor, err := next.cursor()
	return next, cursor, err
}

func (p position) cursor() (channel.Cursor, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return channel.Cursor{}, fmt.Errorf("encode the claims of a board: %w", err)
	}
	return channel.Cursor{Identity: cursorIdentity, Position: raw}, nil
}
