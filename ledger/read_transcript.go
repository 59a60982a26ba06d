package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// TranscriptQuery selects a page of a thread's transcript, starting with the newest messages.
// Before is the cursor that the previous page returned.
type TranscriptQuery struct {
	Thread     string
	Key        int64 // required key of the thread's row; 0: any thread with this id
	Before     string
	Limit      int    // 0: 100; messages read together are split by Bytes only
	Bytes      int    // total size of the messages' JSON, unless the first is larger; 0: mailroom.MaxPage
	Visibility string // visibility of the messages; "" is any
	All        bool   // include superseded, retracted and unread messages, where they arrived
}

// Transcript returns messages in the order in which they were read; the log has them in order of
// arrival. The inputs of a run are at its first start, later messages where they were read, and
// assistant messages where they were written. A partial message is included only if its run failed
// or was cancelled. next is the cursor for older messages, or "".
func (l *Ledger) Transcript(ctx context.Context, q TranscriptQuery) (items []mailroom.Message, next string, err error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	if q.Bytes == 0 {
		q.Bytes = mailroom.MaxPage
	}
	before, skip, err := transcriptCursor(q.Before)
	if err != nil {
		return nil, "", err
	}
	err = l.View(ctx, func(r store.Reader) error {
		if err := sameThread(r, q); err != nil {
			return err
		}
		w := logWalker{r: r, q: q, seen: map[string]bool{}, cut: before - 1, skip: skip}
		if err := w.readBack(before); err != nil && !errors.Is(err, errPageFull) {
			return err
		}
		slices.Reverse(w.out)
		items, next = w.out, w.next
		return nil
	})
	return items, next, err
}

// transcriptCursor parses SEQ, the entry before which a page continues, or SEQ:N, if the previous
// page ended within the messages that the last entry before SEQ names. The page contained N of these messages.
func transcriptCursor(text string) (before int64, skip int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	seq, n, within := strings.Cut(text, ":")
	before, err = strconv.ParseInt(seq, 10, 64)
	if err == nil && within {
		skip, err = strconv.Atoi(n)
	}
	if err != nil || before < 1 || skip < 0 {
		return 0, 0, &mailroom.Error{
			Code: mailroom.CodeInvalid, Message: "before: is not a cursor of this list; use the next of a page",
			Fields: []mailroom.Field{{Location: "before", Message: "is not a cursor of this list", Value: text}},
		}
	}
	return before, skip, nil
}

func sameThread(r store.Reader, q TranscriptQuery) error {
	if q.Key == 0 {
		return nil
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: []string{q.Thread}})
	if err == nil && (len(rows) == 0 || rows[0].Key != q.Key) {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", q.Thread)
	}
	return err
}

// logWalker reads a log backwards and collects the transcript, newest first.
type logWalker struct {
	r    store.Reader
	q    TranscriptQuery
	seen map[string]bool // messages that a later entry names as read
	out  []mailroom.Message
	next string

	cut    int64 // the previous page ended within the messages that this entry names
	skip   int   // how many messages of the entry cut the previous page had
	bytes  int   // bytes of out
	looked int   // entries read so far
}

// maxLooked bounds the entries that one page reads. A page that reaches it is short and has a next
// cursor.
const maxLooked = 20_000

// errPageFull ends the walk when the page is full. next is set.
var errPageFull = errors.New("page is full")

func (w *logWalker) readBack(before int64) error {
	for {
		page, err := w.r.Entries(store.EntryQuery{Thread: w.q.Thread, Before: before, Backward: true, Limit: 200,
			Bytes: mailroom.MaxPage})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			if w.looked++; len(w.out) >= w.q.Limit || w.looked > maxLooked {
				w.next = strconv.FormatInt(e.Seq+1, 10)
				return nil
			}
			if err := w.addEntry(e); err != nil {
				return err
			}
		}
		before = page[len(page)-1].Seq
	}
}

// endedBroken reports whether the run of a partial message failed or was cancelled.
func (w *logWalker) endedBroken(m mailroom.Message) (bool, error) {
	ends, err := w.r.Entries(store.EntryQuery{
		Thread: m.Thread, After: m.Seq, Run: m.Run, Backward: true, Limit: 1,
		Kinds: []string{entry.KindCompleted, entry.KindFailed, entry.KindCancelled},
	})
	return len(ends) > 0 && ends[0].Kind != entry.KindCompleted, err
}

func (w *logWalker) addEntry(e mailroom.Entry) error {
	if e.Kind == entry.KindMessage {
		var m mailroom.Message
		if err := e.Decode(&m); err != nil {
			return err
		}
		return w.addMessage(m)
	}
	seqs, err := entry.Reads(e)
	if err != nil {
		return err
	}
	return w.addRead(e.Seq, seqs...)
}

// addRead emits the messages that the entry at names, in reverse order. A message may have been
// purged before the entry that read it.
func (w *logWalker) addRead(at int64, seqs ...int64) error {
	for i, seq := range slices.Backward(seqs) {
		done := len(seqs) - 1 - i
		if at == w.cut && done < w.skip {
			continue // the previous page has this message
		}
		m, err := messageAt(w.r, w.q.Thread, seq)
		if mailroom.CodeOf(err) == mailroom.CodeNotFound {
			purged, other := w.purged()
			if purged {
				continue
			}
			err = cmp.Or(other, err)
		}
		if err != nil {
			return err
		}
		w.seen[m.ID] = true
		if err := w.emit(m, fmt.Sprintf("%d:%d", at+1, done)); err != nil {
			return err
		}
	}
	return nil
}

// purged reports whether the start of the log was purged.
func (w *logWalker) purged() (bool, error) {
	rows, err := w.r.Threads(store.ThreadQuery{IDs: []string{w.q.Thread}})
	return len(rows) > 0 && rows[0].FirstSeq > 1, err
}

func (w *logWalker) addMessage(m mailroom.Message) error {
	if m.Role == mailroom.RoleAssistant {
		if m.Partial {
			if broken, err := w.endedBroken(m); err != nil || !broken {
				return err
			}
		}
		return w.emit(m, strconv.FormatInt(m.Seq+1, 10))
	}
	if !w.q.All || w.seen[m.ID] {
		return nil
	}
	now, err := findMessage(w.r, w.q.Thread, m.ID)
	if err != nil {
		return err
	}
	switch state, err := messageState(w.r, &now); {
	case err != nil:
		return err
	case state == mailroom.MessageAccepted, state == mailroom.MessageSuperseded, state == mailroom.MessageRetracted:
		return w.emit(now, strconv.FormatInt(m.Seq+1, 10))
	}
	return nil
}

// emit adds a message to the page, or ends the page before it. here is the cursor of a page that
// starts with the message.
func (w *logWalker) emit(m mailroom.Message, here string) (err error) {
	if w.q.Visibility != "" && m.Visibility != w.q.Visibility {
		return nil
	}
	if m.State, err = messageState(w.r, &m); err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if w.bytes += len(raw); w.bytes > w.q.Bytes && len(w.out) > 0 {
		w.next = here
		return errPageFull
	}
	w.out = append(w.out, m)
	return nil
}

// TranscriptBefore returns the last messages that were read before the run's input, in reading
// order: at most limit, and at most mailroom.MaxPage bytes.
func (ws Workers) TranscriptBefore(ctx context.Context, run *mailroom.Run, limit int) ([]mailroom.Message, error) {
	before, err := ws.CursorBefore(ctx, run)
	if err != nil {
		return nil, err
	}
	items, _, err := ws.ledger.Transcript(ctx, TranscriptQuery{Thread: run.Thread, Before: before, Limit: limit})
	if err != nil {
		return nil, err
	}
	return items[max(0, len(items)-limit):], nil // a page does not split messages that were read together
}

// CursorBefore returns the transcript cursor before a run's own input.
func (ws Workers) CursorBefore(ctx context.Context, run *mailroom.Run) (cursor string, err error) {
	err = ws.ledger.View(ctx, func(r store.Reader) error {
		first, err := r.Entries(store.EntryQuery{
			Thread: run.Thread, After: run.FirstSeq, Run: run.ID, Kinds: []string{entry.KindStarted}, Limit: 1,
		})
		if err == nil && len(first) == 0 {
			err = mailroom.Errorf(mailroom.CodeInternal, "run %s has no run.started", run.ID)
		}
		if err == nil {
			cursor = strconv.FormatInt(first[0].Seq, 10)
		}
		return err
	})
	return cursor, err
}
