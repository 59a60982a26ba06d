package store

import (
	"slices"
	"strings"
	"time"
)

// Meter is the row of a number that transactions of several servers share under a key: the time at which the next
// start of a rate is due, how many runs hold a limit, what a budget has left of a period. The users of a key agree on
// what its fields count; a store compares and adds nothing. Keys begin with the name of their use and a colon, so
// that a use can list its rows by a prefix.
//
// A transaction that changes a row names it in Need.Meters first, so that it reads what the last one wrote, and the
// transactions of all handles at one row follow one another. A View reads it without a lock, for display.
type Meter struct {
	Key    string    `json:"key"`
	At     time.Time `json:"at,omitzero"`
	Count  int64     `json:"count,omitempty"`
	USD    int64     `json:"usd,omitempty"` // micro-dollars
	Tokens int64     `json:"tokens,omitempty"`
	Turns  int64     `json:"turns,omitempty"`
	// What a person has added to a limit of this key.
	RaisedUSD    int64 `json:"raised_usd,omitempty"` // micro-dollars
	RaisedTokens int64 `json:"raised_tokens,omitempty"`
	RaisedTurns  int64 `json:"raised_turns,omitempty"`
}

// Blank reports whether the row says nothing, so that it can be dropped.
func (m Meter) Blank() bool { return m == (Meter{Key: m.Key}) }

// MeterQuery selects meters, ordered by Key: the existing ones of the Keys or, without Keys, all whose Key has the
// Prefix and comes after After. Its cost must grow with the selected rows only.
type MeterQuery struct {
	Keys   []string // in any order, each once
	Prefix string   // "": all
	After  string
	Limit  int // 0: no limit; not with Keys
}

// SortMeters sorts meters by their Key.
func SortMeters(list []Meter) {
	slices.SortFunc(list, func(a, b Meter) int { return strings.Compare(a.Key, b.Key) })
}
