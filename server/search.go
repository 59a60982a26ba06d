package server

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/api"
	"mailroom/ledger"
	"mailroom/server/internal/invalid"
	"mailroom/server/internal/view"
	"mailroom/store"
)

const (
	maxSearchWords = 50
	// searchBudget is how long a request looks; the rest of the index is for the next one.
	searchBudget = 30 * time.Millisecond

	// An excerpt has so many characters before the first word that was found, and behind its begin.
	excerptBefore = 60
	excerptBehind = 240
)

type searchInput struct {
	Q      string `query:"q" required:"true" minLength:"1" maxLength:"1000" doc:"Words. A message must have all of them, in any order and in upper or lower case."`
	Thread string `query:"thread" maxLength:"512" doc:"Only messages of this thread."`
	Cursor string `query:"cursor" maxLength:"200" doc:"The next of the previous answer."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

// search finds messages by their words. It looks at a bounded part of the index, so a page may have fewer
// messages than asked for, or none, and still a next.
func (h *messageHandlers) search(ctx context.Context, in *searchInput) (*body[api.FoundMessages], error) {
	if h.noSearch {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "the search is disabled on this server: set search = true in its configuration")
	}
	who := requestOf(ctx).who
	words := store.Words(in.Q)
	if len(words) == 0 || len(words) > maxSearchWords {
		return nil, invalid.Field("query.q", "must have 1 to 50 words", in.Q)
	}
	place := list[*mailroom.Message, api.FoundMessage]{name: "search"}
	from, err := place.parseCursor(h.pages, who, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := api.FoundMessages{Items: []api.FoundMessage{}}
	q := ledger.SearchQuery{Search: store.Search{Words: slices.Clone(words), Before: from}, Long: store.LongWords(in.Q), CanSee: who.CanSee, Each: func(m mailroom.Message) {
		out.Items = append(out.Items, api.FoundMessage{
			Thread: m.Thread, Seq: m.Seq, ID: m.ID, Role: m.Role, Sender: m.Sender, Run: m.Run, State: m.State, CreatedAt: m.CreatedAt,
			Excerpt: excerpt(m.Text, words),
		})
	}}
	if in.Thread != "" {
		if _, err := h.find.thread(ctx, in.Thread); err != nil {
			return nil, err
		}
		q.Words = append(q.Words, store.ThreadWord(in.Thread))
	}
	if owner := ownerOfAll(who); owner != "" {
		q.Words = append(q.Words, store.OwnerWord(owner))
	}
	for begin, left := time.Now(), searchBudget; ; q.Before = q.Next {
		q.Limit, q.Budget = in.Limit-len(out.Items), left
		now, err := h.ledger.Search(ctx, &q)
		if err != nil {
			return nil, err
		}
		out.IndexedTo, out.Complete = view.Known(now.Until), now.Complete
		if left = searchBudget - time.Since(begin); q.Next == 0 || len(out.Items) >= in.Limit || left <= 0 {
			break
		}
	}
	if q.Next != 0 {
		c := place.cursor(h.pages, who, q.Next)
		out.Next = &c
	}
	return &body[api.FoundMessages]{out}, nil
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

// firstWord returns where the first of the words begins, of the places that may begin one, or -1.
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
