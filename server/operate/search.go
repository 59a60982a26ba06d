package operate

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/api"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/store"
)

const (
	maxSearchWords = 50
	// searchBudget is how long a request looks; the rest of the index is for the next one.
	searchBudget = 30 * time.Millisecond

	// The lengths of an excerpt, in characters: before the first word that was found, and from the beginning of that
	// word.
	excerptBefore = 60
	excerptBehind = 240
)

type searchInput struct {
	Q      string `query:"q" required:"true" minLength:"1" maxLength:"1000" doc:"Words. A message must have all of them, in any order and in upper or lower case."`
	Thread string `query:"thread" maxLength:"512" doc:"Only messages of this thread."`
	Cursor string `query:"cursor" maxLength:"1000" doc:"The next of the previous answer."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Messages of the answer at most."`
}

// SearchHandlers serve the search for messages by their words.
type SearchHandlers struct {
	ledger   Searcher
	find     request.Lookup
	pages    pager
	noSearch bool // see Options.NoSearch
}

// Search finds messages by their words. It looks at a bounded part of the index, so a page may have fewer
// messages than asked for, or none, and still a next.
func (h *SearchHandlers) Search(ctx context.Context, in *searchInput) (*body[api.FoundMessages], error) {
	if h.noSearch {
		return nil, mailroom.Errorf(mailroom.CodeNotFound,
			"the search is disabled on this server: set search = true in its configuration")
	}
	who := request.CallerOf(ctx)
	words := store.Words(in.Q)
	if len(words) == 0 || len(words) > maxSearchWords {
		return nil, request.Invalid("query.q", "must have 1 to 50 words", in.Q)
	}
	cursors := list[*mailroom.Message, api.FoundMessage]{name: "search"}
	from, err := cursors.parseCursor(h.pages, who, in.Cursor)
	if err != nil {
		return nil, err
	}
	look := looking{handlers: h, words: words, limit: in.Limit, query: ledger.SearchQuery{
		Search: store.Search{Words: slices.Clone(words)}, Long: store.LongWords(in.Q), CanSee: who.CanSee,
	}}
	look.query.Each = look.add
	if in.Thread != "" {
		if _, err := h.find.Thread(ctx, in.Thread); err != nil {
			return nil, err
		}
		look.thread = in.Thread
	}
	next, err := look.from(ctx, from)
	if err != nil {
		return nil, err
	}
	out := api.FoundMessages{Items: look.found, Complete: look.now.Complete, IndexedTo: request.Known(look.now.Until)}
	if !who.SeesAll() { // the time of the newest entry of all tells when others wrote it
		out.IndexedTo = nil
		if !out.Complete {
			out.IndexedTo = request.Known(look.now.Until.Truncate(time.Minute))
		}
	}
	if next != (place{}) {
		c := cursors.cursor(h.pages, who, next)
		out.Next = &c
	}
	return &body[api.FoundMessages]{out}, nil
}

// looking is one request of a search.
type looking struct {
	handlers *SearchHandlers
	words    []string
	query    ledger.SearchQuery
	thread   string // thread that the query names and the caller sees
	limit    int
	now      ledger.Indexed

	found []api.FoundMessage
	rows  []int64 // keys of the rows in found
}

func (l *looking) add(m mailroom.Message, row int64) {
	l.rows = append(l.rows, row)
	l.found = append(l.found, api.FoundMessage{
		Thread: m.Thread, Seq: m.Seq, ID: m.ID, Role: m.Role, Sender: m.Sender, Run: m.Run, State: m.State,
		CreatedAt: m.CreatedAt,
		Excerpt:   excerpt(m.Text, l.words),
	})
}

// from looks for one message more than the limit behind a place, so that there is a next only if one follows or if
// the time is over. It returns the place of the rest, the zero one at the end.
func (l *looking) from(ctx context.Context, at place) (place, error) {
	l.found = []api.FoundMessage{}
	begin := time.Now()
	last := place{} // place of the last message that is shown
	for {
		in, err := l.scope(ctx, at.group)
		if err != nil {
			return place{}, err
		}
		before, q := len(l.found), l.query
		if q.AnyOf, q.Before = in.words(), at.key; l.thread != "" {
			q.AnyOf = []string{store.ThreadWord(l.thread)}
		}
		q.Limit, q.Budget = l.limit+1-before, max(searchBudget-time.Since(begin), 1)
		if in.isEmpty() {
			q.Words = nil // reads only how far the index is
		}
		if l.now, err = l.handlers.ledger.Search(ctx, &q); err != nil {
			return place{}, err
		}
		if n := min(len(l.found), l.limit); n > before {
			last = place{at.group, l.rows[n-1]}
		}
		if len(l.found) > l.limit {
			l.found = l.found[:l.limit]
			return last, nil
		}
		switch at.key = q.Next; {
		case at.key == 0 && in.next == "":
			return place{}, nil
		case at.key == 0:
			at = place{group: in.next}
		}
		if time.Since(begin) >= searchBudget {
			return at, nil
		}
	}
}

// scope returns the rows of a group to look at.
func (l *looking) scope(ctx context.Context, group string) (in scope, err error) {
	if l.thread != "" {
		return scope{all: true}, nil
	}
	err = l.handlers.find.View(ctx, func(rd store.Reader) (err error) {
		in, err = scopeOf(rd, request.CallerOf(ctx), group, searchThreads)
		return err
	})
	return in, err
}

// excerpt returns the part of a text around the first of the words, on one line.
func excerpt(text string, words []string) string {
	runes := []rune(text[:min(len(text), store.MaxIndexed)])
	begin := firstWord(runes, words, func(i int) bool { return i == 0 || !inWord(runes[i-1]) })
	if begin < 0 { // a script without spaces between words
		begin = max(0, firstWord(runes, words, func(int) bool { return true }))
	}
	from, to := max(0, begin-excerptBefore), min(len(runes), begin+excerptBehind)
	out := strings.Join(strings.Fields(string(runes[from:to])), " ")
	if from > 0 {
		out = "… " + out
	}
	if to < len(runes) || len(text) > store.MaxIndexed {
		out += " …"
	}
	return out
}

// firstWord returns the index at which the first of the words begins, or -1. It looks only at the indexes for which
// may returns true.
func firstWord(runes []rune, words []string, may func(int) bool) int {
	for i := range runes {
		if may(i) && slices.ContainsFunc(words, func(w string) bool { return hasWord(runes[i:], w) }) {
			return i
		}
	}
	return -1
}

func inWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) }

// hasWord reports whether a text begins with a word, in any case.
func hasWord(runes []rune, word string) bool {
	n := 0
	for _, c := range word {
		if n == len(runes) || unicode.ToLower(runes[n]) != c {
			return false
		}
		n++
	}
	return true
}
