package ledger

import (
	"context"
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
	var out []mailroom.Message
	err := l.View(ctx, func(r store.Reader) error {
		out = nil
		for _, seq := range seqs {
			m, err := messageAt(r, thread, seq)
			if err != nil {
				return err
			}
			out = append(out, m)
		}
		return nil
	})
	return out, err
}

// Inputs returns the messages that started each of the runs, from one snapshot.
func (ws Workers) Inputs(ctx context.Context, runs []*mailroom.Run) ([][]mailroom.Message, error) {
	out := make([][]mailroom.Message, len(runs))
	err := ws.ledger.View(ctx, func(r store.Reader) error {
		for i, run := range runs {
			out[i] = []mailroom.Message{}
			for _, in := range run.Inputs {
				if in.Retracted {
					continue
				}
				m, err := messageAt(r, run.Thread, in.Seq)
				if err != nil {
					return err
				}
				out[i] = append(out[i], m)
			}
		}
		return nil
	})
	return out, err
}

// messageAt returns the message whose content is in entry seq.
func messageAt(r store.Reader, thread string, seq int64) (mailroom.Message, error) {
	var m mailroom.Message
	e, err := entryAt(r, thread, seq)
	if err != nil {
		return m, err
	}
	switch e.Kind {
	case entry.KindMessage:
		return m, e.Decode(&m)
	case entry.KindEdited:
	default: // entries of agents have any content
		return m, mailroom.Errorf(mailroom.CodeNotFound, "entry %d of thread %q is not a message", seq, thread)
	}
	var edit entry.Edited
	if err := e.Decode(&edit); err != nil {
		return m, err
	}
	_, first, _ := strings.Cut(edit.Message, ".")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return m, mailroom.Errorf(mailroom.CodeInternal, "edit %d of thread %q names message %q: %w", seq, thread, edit.Message, err)
	}
	if m, err = messageAt(r, thread, n); err != nil {
		return m, err
	}
	m.Text, m.Parts = edit.Text, edit.Parts
	return m, nil
}

func entryAt(r store.Reader, thread string, seq int64) (mailroom.Entry, error) {
	found, err := r.Entries(store.EntryQuery{Thread: thread, After: seq - 1, Before: seq + 1, Limit: 1})
	if err == nil && len(found) == 0 {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no entry %d in thread %q", seq, thread)
	}
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
			continue // another message, which may be purged
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
