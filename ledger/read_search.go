package ledger

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// About how much IndexMessages reads and writes at a time. Other operations wait for its transaction as for any
// other.
const (
	indexedEntries = 300
	indexedBytes   = 256 << 10
)

// Indexed says how far the index of messages is.
type Indexed struct {
	Until    time.Time // time of the newest entry that was read; zero: none
	Complete bool      // every committed entry was read
}

// IndexMessages reads the next part of the log of all threads and adds its messages to the index. It
// returns how many entries it read; at 0, others may still be committed before the end of the log.
func (l *Ledger) IndexMessages(ctx context.Context) (read int, err error) {
	var x *store.Indexing
	err = l.View(ctx, func(r store.Reader) error {
		state, err := indexState(r)
		if err != nil {
			return err
		}
		all, entries, err := entriesAfter(r, state, indexedEntries)
		if read = len(entries); err != nil || read == 0 {
			return err
		}
		x = &store.Indexing{Before: state, After: state}
		x.After.Order, x.After.At, x.After.Until = all.Order, all.Positions[read-1], entries[read-1].At
		x.Rows, x.Drop, err = indexRows(r, entries, all.Positions)
		x.After.Last += int64(len(x.Rows))
		return err
	})
	if err == nil && x != nil {
		err = l.lanes[len(l.lanes)-1].store.Update(ctx, func(tx store.Tx) error { return tx.Write(&store.Changes{Index: x}) })
		if err != nil && l.indexMoved(ctx, x.Before) {
			err = mailroom.Errorf(mailroom.CodeConflict, "another server indexes the messages")
		}
	}
	return read, err
}

// indexMoved reports whether the state of the index differs from before.
func (l *Ledger) indexMoved(ctx context.Context, before store.IndexState) (moved bool) {
	err := l.View(ctx, func(r store.Reader) error {
		state, err := indexState(r)
		moved = state != before
		return err
	})
	return err == nil && moved
}

func indexState(r store.Reader) (store.IndexState, error) {
	var q store.Search
	_, err := r.Entries(store.EntryQuery{Search: &q})
	return q.State, err
}

// entriesAfter reads the entries that are not indexed. If the order has changed, it reads from the
// first entry on.
func entriesAfter(r store.Reader, s store.IndexState, limit int) (*store.AllEntries, []mailroom.Entry, error) {
	all := &store.AllEntries{After: s.At}
	entries, err := r.Entries(store.EntryQuery{All: all, Limit: limit, Bytes: indexedBytes})
	if err == nil && s.Order != "" && s.Order != all.Order {
		all = &store.AllEntries{}
		entries, err = r.Entries(store.EntryQuery{All: all, Limit: limit, Bytes: indexedBytes})
	}
	return all, entries, err
}

// indexRows returns the rows of the messages that entries began or changed, and those to drop.
func indexRows(r store.Reader, entries []mailroom.Entry, at []store.Position) (rows, drop []store.IndexRow, err error) {
	type key struct{ thread, seq int64 }
	last := map[key]*store.IndexRow{} // without words: it was retracted
	var order []key
	owners, err := ownersOf(r, entries)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range entries {
		seq, text, ok := messageText(e)
		owner, known := owners[e.Thread]
		if !ok || !known {
			continue
		}
		row := &store.IndexRow{Thread: at[i].Thread, Seq: seq, Content: e.Seq}
		if e.Kind != entry.KindRetracted {
			row.Words = append(store.Words(text), store.OwnerWord(owner), store.ThreadWord(e.Thread))
		}
		k := key{row.Thread, row.Seq}
		if last[k] == nil {
			order = append(order, k)
		}
		last[k] = row
	}
	for _, k := range order {
		if row := last[k]; row.Words == nil {
			drop = append(drop, *row)
		} else {
			rows = append(rows, *row)
		}
	}
	return rows, drop, nil
}

// ownersOf returns the owners of the threads of entries, without threads that are being deleted.
func ownersOf(r store.Reader, entries []mailroom.Entry) (map[string]string, error) {
	owners := map[string]string{}
	var ids []string
	for _, e := range entries {
		if _, ok := owners[e.Thread]; !ok {
			owners[e.Thread] = ""
			ids = append(ids, e.Thread)
		}
	}
	clear(owners)
	found, err := r.Threads(store.ThreadQuery{IDs: ids})
	for _, t := range found {
		owners[t.ID] = t.Owner
	}
	return owners, err
}

// messageText returns the text that an entry gives to a message, and the seq of the message's first entry.
// Entries that agents wrote may have any content; it is no message.
func messageText(e mailroom.Entry) (seq int64, text string, ok bool) {
	switch e.Kind {
	case entry.KindMessage:
		var m mailroom.Message
		if e.Decode(&m) != nil || m.ID == "" {
			return 0, "", false
		}
		return e.Seq, m.Text, true
	case entry.KindEdited, entry.KindRetracted: // both name the message
		var edit entry.Edited
		if e.Decode(&edit) != nil {
			return 0, "", false
		}
		_, first, _ := strings.Cut(edit.Message, ".")
		seq, err := strconv.ParseInt(first, 10, 64)
		return seq, edit.Text, err == nil && seq > 0 && seq < e.Seq
	}
	return 0, "", false
}

// SearchQuery finds messages by the index.
type SearchQuery struct {
	store.Search
	Long   []string                    // long words that a message must have too, see [store.LongWords]
	CanSee func(*mailroom.Thread) bool // of a message
	// Each gets the messages with their rows, the newest first.
	Each func(m mailroom.Message, row int64)
}

// searchGroup is how many texts are read at a time: one may have a megabyte.
const searchGroup = 8

// Search gives the found messages to q.Each, with their present text, and says how far the index is. It
// leaves out what the caller cannot see, messages that were retracted or edited since they were indexed, and
// those of runs that only deliver what another run said. q.Next is the place to go on from. The budget
// covers reading the texts.
func (l *Ledger) Search(ctx context.Context, q *SearchQuery) (now Indexed, err error) {
	begin := time.Now()
	err = l.View(ctx, func(r store.Reader) error {
		if _, err := r.Entries(store.EntryQuery{Search: &q.Search}); err != nil {
			return err
		}
		all, rest, err := entriesAfter(r, q.State, 1)
		if err != nil {
			return err
		}
		now = Indexed{Until: q.State.Until, Complete: len(rest) == 0 && !all.Pending}
		seen, err := q.visible(r)
		if err != nil {
			return err
		}
		for group := range slices.Chunk(seen, searchGroup) {
			found, rows, err := foundMessages(r, group)
			if err != nil {
				return err
			}
			for i, m := range found {
				if hasAll(m.Text, q.Long) {
					q.Each(m, rows[i])
				}
			}
			last := group[len(group)-1].Row
			if last != seen[len(seen)-1].Row && q.Budget > 0 && time.Since(begin) >= q.Budget {
				q.Next = last
				return nil
			}
		}
		return nil
	})
	return now, err
}

// hasAll reports whether a text has all of these long words. The index has only their beginnings.
func hasAll(text string, long []string) bool {
	if len(long) == 0 {
		return true
	}
	has := store.LongWords(text)
	return !slices.ContainsFunc(long, func(word string) bool { return !slices.Contains(has, word) })
}

// visible returns the matches in threads that the caller sees.
func (q *SearchQuery) visible(r store.Reader) (seen []store.Match, err error) {
	can := map[string]bool{}
	var ids []string
	for _, m := range q.Found {
		if _, ok := can[m.Content.Thread]; !ok {
			can[m.Content.Thread] = false
			ids = append(ids, m.Content.Thread)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	threads, err := r.Threads(store.ThreadQuery{IDs: ids})
	for _, t := range threads {
		can[t.ID] = q.CanSee(t)
	}
	for _, m := range q.Found {
		if can[m.Content.Thread] {
			seen = append(seen, m)
		}
	}
	return seen, err
}

// foundMessages returns the messages of matches whose text is the present one, and their rows.
func foundMessages(r store.Reader, matches []store.Match) (found []mailroom.Message, at []int64, err error) {
	var refs []store.EntryRef
	for _, m := range matches {
		refs = append(refs, m.Content)
	}
	all, err := messagesAt(r, refs)
	if err != nil {
		return nil, nil, err
	}
	var ids []string
	for i := range all {
		ids = append(ids, holderRuns(&all[i])...)
	}
	rows, err := r.Runs(store.RunQuery{IDs: ids})
	if err != nil {
		return nil, nil, err
	}
	runs := map[string]*mailroom.Run{}
	for _, run := range rows {
		runs[run.ID] = run
	}
	for i, m := range all {
		if isPresent(&m, refs[i].Seq, runs) {
			found, at = append(found, m), append(at, matches[i].Row)
		}
	}
	return found, at, nil
}

// isPresent sets the state of a message, whose text is in the entry content. It reports whether that is its
// present text, and whether the message is not of a delivery or an alert.
func isPresent(m *mailroom.Message, content int64, runs map[string]*mailroom.Run) bool {
	if run := runs[m.Run]; reserved.ForServer(m.Thread) || run != nil && thread.IsDelivery(run.View()) {
		return false
	}
	if m.Role == mailroom.RoleAssistant {
		return true
	}
	m.State = mailroom.MessageRead // unless a run still holds it
	for _, id := range holderRuns(m) {
		run := runs[id]
		if run == nil {
			continue
		}
		if in := inputOf(run, m.ID); in != nil {
			m.State, _ = run.MessageState(m.ID)
			return !in.Retracted && in.Seq == content
		}
	}
	return true
}
