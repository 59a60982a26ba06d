package store

import (
	"errors"
	"time"
)

// IndexState says how far the index of messages is. A follower reads the log behind the commits and writes
// the index; see Indexing.
//
// The words of some entries and the position after them are written in one transaction. So the
// index is never ahead of the log, a kill loses nothing of it, and a second indexer fails at the
// position instead of writing twice. Words in the transaction of each submit would delay it by the
// size of its text.
type IndexState struct {
	Last  int64     // number of the newest row; rows are numbered from 1 as they are written
	Order string    // the order of At, see AllEntries
	At    Position  // the entries up to here are indexed
	Until time.Time // time of the newest entry among them
}

// Indexing adds to the index of messages. The store drops the rows of an entry with the entry.
//
// An entry that goes takes its row along, by triggers, so that deleted text cannot be found. A
// separate index per server would keep the words out of the database, but an index outside of the
// transactions would have to learn of deletions in another way.
type Indexing struct {
	// Before is the state of the index that the change was made for. If the stored state differs, another process has
	// changed the index, and the Update fails.
	Before IndexState
	After  IndexState
	// Rows are the rows to write. Their numbers end at After.Last, and no two have the same entry. A row replaces the
	// stored row of its entry. The store leaves out a row whose entry no longer exists.
	Rows []IndexRow
	Drop []IndexRow // by entry, before Rows are written
}

// IndexRow has the words of the message that an entry began.
type IndexRow struct {
	Thread  int64 // Key
	Seq     int64 // of the entry
	Content int64 // seq of the entry that has the present text: the same one, or its last edit
	Words   []string
}

// Search selects messages of the index that have all words, the newest row first. It looks at one window
// of the rows after the other, each of a bounded number of rows, until it has found Limit or has used
// Budget. The store skips windows that cannot have a match.
//
// The alternative, one query with a limit, reads the rows of one of the words until enough of them have
// the others too: for two frequent words that no message has both of, that is the whole index. Matches
// are not ranked, because an operator looks for the last time that something was said.
type Search struct {
	Words []string // as of Words, OwnerWord and ThreadWord; none: only the state is read
	// AnyOf are OwnerWords and ThreadWords. A row must have one of them; none: no condition. If few rows have
	// one, the search reads those only, so it costs the same whatever words other rows have.
	AnyOf  []string
	Before int64         // number of a row, exclusive; 0: from the newest
	Limit  int           // at least 1
	Budget time.Duration // 0: no limit

	// The query sets the fields below.

	Found []Match // the newest first; some texts may be gone when they are read
	Next  int64   // the Before of the rest; 0: there is none
	State IndexState
}

const (
	// windowBits and levelBits give the windows of a search their lengths: 8,192 rows, four times as
	// many, and so on up to 2,097,152. The shortest window is read in a few milliseconds. With that length
	// alone, a word of an old message would take a hundred looks per million rows. A window begins at a
	// multiple of its length, so that a row belongs to one window per level, and a database whose index
	// has no ranges can store these windows as words of the row. That is also why there are few levels.
	windowBits = 13
	levelBits  = 2
	levels     = 5
)

// ErrManyMatches is the error of Look for a long window that has too many matches to sort. The search then looks at a
// shorter window. A window of the shortest length never has too many matches.
var ErrManyMatches = errors.New("the window has too many matches")

// The next window is longer after one without a match that took less than quick, and shorter after one
// that took more than slow. The time decides and not the number of matches: the same window takes
// longer on a busy machine or while its pages are not in memory, and a search must keep to its Budget
// there too. slow is well above quick, so that windows of the same cost keep their length.
const (
	quick = 4 * time.Millisecond
	slow  = 12 * time.Millisecond
)

// Window is a range of rows of the index: from Low, inclusive, to High, exclusive.
type Window struct {
	Low, High int64
	Level     int  // of its length
	Whole     bool // all rows below High; it has no WindowWord
}

// WholeBelow returns the window of all rows before the row high.
func WholeBelow(high int64) Window { return Window{Low: 1, High: high, Whole: true} }

// RareRows is the greatest number of rows with a word of AnyOf at which a search reads only these rows. Reading them
// costs about as much as one look at a window. To find out that there are more rows, a store reads only one more entry
// of the index.
const RareRows = 256

// WindowBelow returns the window of a level that ends before the row high. It begins at a multiple of its
// length, or at row 1.
func WindowBelow(high int64, level int) Window {
	bits := windowBits + levelBits*level
	return Window{Low: max(1, (high-1)>>bits<<bits), High: high, Level: level}
}

// Next returns the window of older rows that follows w, a longer one if there is one.
func (w Window) Next() Window { return WindowBelow(w.Low, min(w.Level+1, levels-1)) }

// WindowWord returns the word that all rows of the window have, and only rows of its multiple.
func (w Window) WindowWord() string { return windowWord(w.Level, w.Low) }

// WindowWords returns the words of the windows that a row is in, for a store that reads windows by them.
func WindowWords(row int64) []string {
	words := make([]string, levels)
	for level := range words {
		words[level] = windowWord(level, row)
	}
	return words
}

// Match is a row that has the words of a search.
type Match struct {
	Row     int64
	Content EntryRef // entry with the text of the message
}

// Windows has the functions of a store that a search calls. Both know the words of the search.
type Windows struct {
	// Look returns the newest matches of a window, at most limit.
	Look func(w Window, limit int) ([]Match, error)
	// Skip returns the window to look at in place of next, at the start and after a window without a match: next
	// itself, a longer window, or a window of older rows if no row between has a match. The zero Window says that no
	// older row has a match. Skip takes at most the time within and one step of its own. So a word that few messages
	// have is found without a look at all windows. If Skip is nil, the search always looks at next.
	Skip func(next Window, within time.Duration) (Window, error)
}

// Run searches one window after the other and sets the result fields. The caller has set State.
func (s *Search) Run(in Windows) error {
	s.Found, s.Next = nil, 0
	if len(s.Words) == 0 {
		return nil
	}
	high := s.State.Last + 1
	if s.Before > 0 {
		high = min(high, s.Before)
	}
	skip := in.Skip
	if skip == nil {
		skip = func(next Window, _ time.Duration) (Window, error) { return next, nil }
	}
	begin := time.Now()
	w, err := skip(WindowBelow(high, 0), quick)
	if err != nil {
		return err
	}
	for w.High > 1 {
		started := time.Now()
		found, err := in.Look(w, s.Limit-len(s.Found))
		if w.Level > 0 && errors.Is(err, ErrManyMatches) {
			w = WindowBelow(w.High, w.Level-1)
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range found {
			s.Found = append(s.Found, m)
			if len(s.Found) == s.Limit {
				if m.Row > 1 {
					s.Next = m.Row
				}
				return nil
			}
		}
		now := time.Now()
		if s.Budget > 0 && now.Sub(begin) >= s.Budget && w.Low > 1 {
			s.Next = w.Low
			return nil
		}
		switch took := now.Sub(started); {
		case len(found) == 0 && took < quick:
			if w = w.Next(); w.High > 1 {
				if w, err = skip(w, quick); err != nil {
					return err
				}
			}
		case len(found) > 0 || took > slow:
			w = WindowBelow(w.Low, max(w.Level-1, 0))
		default:
			w = WindowBelow(w.Low, w.Level)
		}
	}
	return nil
}
