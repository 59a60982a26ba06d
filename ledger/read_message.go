package ledger

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// Message returns a message of a thread with its current content and state.
func (l *Ledger) Message(ctx context.Context, thread, id string) (mailroom.Message, error) {
	var m mailroom.Message
	err := l.View(ctx, func(r store.Reader) error {
		found, err := findMessage(r, thread, id)
		if err != nil {
			return err
		}
		found.State, err = messageState(r, &found)
		m = found
		return err
	})
	return m, err
}

// Messages returns the messages at the given entries of a thread, each a message or an edit, with
// the content of that entry.
func (l *Ledger) Messages(ctx context.Context, thread string, seqs []int64) ([]mailroom.Message, error) {
	refs := make([]store.EntryRef, len(seqs))
	for i, seq := range seqs {
		refs[i] = store.EntryRef{Thread: thread, Seq: seq}
	}
	return l.readMessages(ctx, refs)
}

// Inputs returns the messages that started each of the runs, from one snapshot.
func (ws Workers) Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error) {
	var refs []store.EntryRef
	counts := make([]int, len(runs))
	for i, run := range runs {
		for _, in := range run.Inputs {
			if !in.Retracted {
				refs = append(refs, store.EntryRef{Thread: run.Thread, Seq: in.Seq})
				counts[i]++
			}
		}
	}
	all, err := ws.ledger.readMessages(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := make([][]mailroom.Message, len(runs))
	for i, n := range counts {
		out[i], all = append([]mailroom.Message{}, all[:n]...), all[n:]
	}
	return out, nil
}

// maxRefs is how many entries a query for messages names.
const maxRefs = 128

// readMessages returns the messages whose contents are in these entries, in their order.
func (l *Ledger) readMessages(ctx context.Context, refs []store.EntryRef) ([]mailroom.Message, error) {
	var all []mailroom.Message
	err := l.View(ctx, func(r store.Reader) error {
		all = make([]mailroom.Message, 0, len(refs))
		for some := range slices.Chunk(refs, maxRefs) {
			found, err := messagesAt(r, some)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		return nil
	})
	return all, err
}

// messageAt returns the message whose content is in entry seq.
func messageAt(r store.Reader, thread string, seq int64) (mailroom.Message, error) {
	found, err := messagesAt(r, []store.EntryRef{{Thread: thread, Seq: seq}})
	if err != nil {
		return mailroom.Message{}, err
	}
	return found[0], nil
}

// messagesAt returns the messages whose contents are in these entries, in their order.
func messagesAt(r store.Reader, refs []store.EntryRef) ([]mailroom.Message, error) {
	entries, err := entriesAt(r, refs)
	if err != nil {
		return nil, err
	}
	found := make([]mailroom.Message, len(refs))
	edits := map[int]entry.Edited{} // edits by position in refs
	var edited []store.EntryRef     // the first contents of these, in the order of positions
	for i, e := range entries {
		switch e.Kind {
		case entry.KindMessage:
			if err := e.Decode(&found[i]); err != nil {
				return nil, err
			}
		case entry.KindEdited:
			var edit entry.Edited
			if err := e.Decode(&edit); err != nil {
				return nil, err
			}
			_, first, _ := strings.Cut(edit.Message, ".")
			seq, err := strconv.ParseInt(first, 10, 64)
			if err != nil || seq >= e.Seq {
				return nil, mailroom.Errorf(mailroom.CodeInternal,
					"edit %d of thread %q names message %q", e.Seq, e.Thread, edit.Message)
			}
			edits[i] = edit
			edited = append(edited, store.EntryRef{Thread: e.Thread, Seq: seq})
		default: // entries of agents have any content
			return nil, mailroom.Errorf(mailroom.CodeNotFound, "entry %d of thread %q is not a message", e.Seq, e.Thread)
		}
	}
	if len(edited) == 0 {
		return found, nil
	}
	originals, err := messagesAt(r, edited)
	if err != nil {
		return nil, err
	}
	for i, at := range slices.Sorted(maps.Keys(edits)) {
		found[at] = originals[i]
		found[at].Text, found[at].Parts = edits[at].Text, edits[at].Parts
	}
	return found, nil
}

// entriesAt returns these entries, in their order.
func entriesAt(r store.Reader, refs []store.EntryRef) ([]mailroom.Entry, error) {
	found, err := r.Entries(store.EntryQuery{At: refs})
	if err != nil {
		return nil, err
	}
	by := make(map[store.EntryRef]mailroom.Entry, len(found))
	for _, e := range found {
		by[store.EntryRef{Thread: e.Thread, Seq: e.Seq}] = e
	}
	all := make([]mailroom.Entry, len(refs))
	for i, ref := range refs {
		e, ok := by[ref]
		if !ok {
			return nil, mailroom.Errorf(mailroom.CodeNotFound, "no entry %d in thread %q", ref.Seq, ref.Thread)
		}
		all[i] = e
	}
	return all, nil
}

func entryAt(r store.Reader, thread string, seq int64) (mailroom.Entry, error) {
	found, err := entriesAt(r, []store.EntryRef{{Thread: thread, Seq: seq}})
	if err != nil {
		return mailroom.Entry{}, err
	}
	return found[0], nil
}

// findMessage returns the message with an id: "<run>.<seq>" for a submitted message,
// "<run>.<attempt>-<n>" for one that a run wrote.
func findMessage(r store.Reader, thread, id string) (mailroom.Message, error) {
	run, rest, _ := strings.Cut(id, ".")
	if seq, err := strconv.ParseInt(rest, 10, 64); err == nil {
		return findSubmitted(r, thread, id, seq)
	}
	var m mailroom.Message
	missing := mailroom.Errorf(mailroom.CodeNotFound, "no message %q in thread %q", id, thread)
	runs, err := r.Runs(store.RunQuery{IDs: []string{run}})
	if err != nil {
		return m, err
	}
	if len(runs) == 0 || runs[0].Thread != thread {
		return m, missing
	}
	said := store.EntryQuery{Thread: thread, After: runs[0].FirstSeq - 1, Run: run, Kinds: []string{entry.KindMessage}}
	err = eachEntry(r, said, func(e mailroom.Entry) (more bool, err error) {
		err = e.Decode(&m)
		return m.ID != id, err
	})
	if err == nil && m.ID != id {
		return mailroom.Message{}, missing
	}
	return m, err
}

// eachEntry calls f for each entry that q selects while f returns more. It reads one page at a
// time.
func eachEntry(r store.Reader, q store.EntryQuery, f func(e mailroom.Entry) (more bool, err error)) error {
	q.Limit, q.Bytes = 200, mailroom.MaxPage
	for {
		page, err := r.Entries(q)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			if more, err := f(e); err != nil || !more {
				return err
			}
			q.After = e.Seq
		}
	}
}

// findSubmitted returns the submitted message whose first entry is seq, with its current content:
// that of the last edit, which the holding run records, or of the entry that records the read.
func findSubmitted(r store.Reader, thread, id string, seq int64) (mailroom.Message, error) {
	m, err := messageAt(r, thread, seq)
	if code := mailroom.CodeOf(err); code == mailroom.CodeNotFound || err == nil && m.ID != id {
		return mailroom.Message{}, mailroom.Errorf(mailroom.CodeNotFound, "no message %q in thread %q", id, thread)
	}
	if err != nil {
		return m, err
	}
	runs, err := r.Runs(store.RunQuery{IDs: holderRuns(&m)})
	if err != nil {
		return m, err
	}
	if len(runs) == 0 {
		now, _, err := foldPurged(r, &m)
		return now, err
	}
	for _, run := range runs {
		if in := inputOf(run, id); in != nil {
			return messageAt(r, thread, in.Seq)
		}
	}
	reads := store.EntryQuery{Thread: thread, After: seq, Run: m.Run, Kinds: entry.ReadKinds()}
	now := m
	err = eachEntry(r, reads, func(e mailroom.Entry) (more bool, err error) {
		read, err := readBy(r, e, id, seq)
		if err != nil || read.ID != id {
			return true, err
		}
		now = read
		return false, nil
	})
	return now, err
}

// readBy returns the message with this id, first appended at first, with the content that entry e
// records as read. The message is empty if e does not record it.
func readBy(r store.Reader, e mailroom.Entry, id string, first int64) (mailroom.Message, error) {
	seqs, err := entry.Reads(e)
	if err != nil {
		return mailroom.Message{}, err
	}
	for _, seq := range seqs {
		if seq < first {
			continue // the entry is of another message, which may be purged
		}
		if m, err := messageAt(r, e.Thread, seq); err != nil || m.ID == id {
			return m, err
		}
	}
	return mailroom.Message{}, nil
}

// holderRuns returns the runs that may hold a submitted message: the one in its id and the one that
// it was steered into.
func holderRuns(m *mailroom.Message) []string {
	id, _, _ := strings.Cut(m.ID, ".")
	return []string{id, m.Run}
}

func inputOf(r *mailroom.Run, id string) *mailroom.Input {
	for i := range r.Steers {
		if r.Steers[i].Message == id {
			return &r.Steers[i].Input
		}
	}
	for i := range r.Inputs {
		if r.Inputs[i].Message == id {
			return &r.Inputs[i]
		}
	}
	return nil
}

// messageState derives the current state of a message from the run that holds it. If no run does,
// the message was steered, read and covered by a step.
func messageState(r store.Reader, m *mailroom.Message) (string, error) {
	if m.Role == mailroom.RoleAssistant {
		return mailroom.MessageDone, nil
	}
	runs, err := r.Runs(store.RunQuery{IDs: holderRuns(m)})
	if err != nil {
		return "", err
	}
	if len(runs) == 0 {
		_, state, err := foldPurged(r, m)
		return state, err
	}
	state := mailroom.MessageRead
	for _, run := range runs {
		if s, ok := run.MessageState(m.ID); ok {
			return s, nil
		}
		if run.ID == m.Run && run.Status == mailroom.StatusCompleted {
			state = mailroom.MessageDone
		}
	}
	return state, nil
}

// Effects returns the state of a run's named effects.
func (ws Workers) Effects(ctx context.Context, run *mailroom.Run) (states map[string]*entry.EffectState, err error) {
	err = ws.ledger.View(ctx, func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{
			Thread: run.Thread, After: run.FirstSeq, Run: run.ID,
			Kinds: []string{entry.KindRetried, entry.KindEffectIntended, entry.KindEffectSettled, entry.KindEffectUnknown},
		})
		if err == nil {
			states, err = entry.FoldEffects(entries)
		}
		return err
	})
	return states, err
}

// foldPurged derives the content and state of a message from the log after its run was purged. A
// run is purged with its first entry, while messages that joined it later may be kept.
func foldPurged(r store.Reader, m *mailroom.Message) (now mailroom.Message, state string, err error) {
	after := store.EntryQuery{Thread: m.Thread, After: m.Seq, Kinds: []string{
		entry.KindEdited, entry.KindRetracted, entry.KindCompleted, entry.KindCancelled,
	}}
	now, state = *m, mailroom.MessageRead
	err = eachEntry(r, after, func(e mailroom.Entry) (more bool, err error) {
		var body struct {
			Message string `json:"message"`
		}
		if err := e.Decode(&body); err != nil {
			return false, err
		}
		mine := slices.Contains(holderRuns(m), e.Run)
		switch {
		case e.Kind == entry.KindEdited && body.Message == m.ID:
			if now, err = messageAt(r, m.Thread, e.Seq); err != nil {
				return false, err
			}
		case e.Kind == entry.KindRetracted && body.Message == m.ID:
			state = mailroom.MessageRetracted
			return false, nil
		case e.Kind == entry.KindCompleted && mine:
			state = mailroom.MessageDone
		case e.Kind == entry.KindCancelled && mine && e.Attempt == 0:
			state = mailroom.MessageSuperseded
		}
		return true, nil
	})
	return now, state, err
}
