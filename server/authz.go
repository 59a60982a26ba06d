package server

import (
	"bytes"
	"context"
	"slices"

	"mailroom"
	"mailroom/bus"
)

// What a caller may not know of is not there for it: the functions of this file
// are the one way to a thread, a run, a ticket or a message, and refuse a foreign
// one in the words for one that does not exist.

// findThread finds a thread for who.
func findThread(rd mailroom.Reader, who *mailroom.Token, id string) (*mailroom.Thread, error) {
	rows, err := rd.Threads(mailroom.ThreadQuery{IDs: []string{id}})
	if err == nil && (len(rows) == 0 || !who.Sees(rows[0])) {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// findRun finds a run for who, with its thread.
func findRun(rd mailroom.Reader, who *mailroom.Token, id string) (*mailroom.Run, *mailroom.Thread, error) {
	rows, err := rd.Runs(mailroom.RunQuery{IDs: []string{id}})
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 1 {
		t, err := findThread(rd, who, rows[0].Thread)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return rows[0], t, err
		}
	}
	return nil, nil, mailroom.Errorf(mailroom.CodeNotFound, "no run %q", truncate(id))
}

// findTicket finds a ticket for who.
func findTicket(rd mailroom.Reader, who *mailroom.Token, id string) (*mailroom.Ticket, error) {
	rows, err := rd.Tickets(mailroom.TicketQuery{IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 {
		_, err := findThread(rd, who, rows[0].Thread)
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			return rows[0], err
		}
	}
	return nil, mailroom.Errorf(mailroom.CodeNotFound, "no ticket %q", truncate(id))
}

// visibleThreads tells which of the threads who sees.
func visibleThreads(rd mailroom.Reader, who *mailroom.Token, threads []string) (map[string]bool, error) {
	out := map[string]bool{}
	if len(threads) == 0 {
		return out, nil
	}
	slices.Sort(threads)
	rows, err := rd.Threads(mailroom.ThreadQuery{IDs: slices.Compact(threads)})
	for _, t := range rows {
		out[t.ID] = who.Sees(t)
	}
	return out, err
}

// findThread finds a thread for who sends the request of ctx.
func (s *Server) findThread(ctx context.Context, id string) (out *mailroom.Thread, err error) {
	err = s.options.Ledger.View(ctx, func(rd mailroom.Reader) (err error) {
		out, err = findThread(rd, requestOf(ctx).who, id)
		return err
	})
	return out, err
}

// findRun finds a run for who sends the request of ctx. A run never moves to
// another thread, and its id is never used again: what follows may name it.
func (s *Server) findRun(ctx context.Context, id string) (out *mailroom.Run, err error) {
	err = s.options.Ledger.View(ctx, func(rd mailroom.Reader) (err error) {
		out, _, err = findRun(rd, requestOf(ctx).who, id)
		return err
	})
	return out, err
}

// findTicket is seenRun for a ticket.
func (s *Server) findTicket(ctx context.Context, id string) (out *mailroom.Ticket, err error) {
	err = s.options.Ledger.View(ctx, func(rd mailroom.Reader) (err error) {
		out, err = findTicket(rd, requestOf(ctx).who, id)
		return err
	})
	return out, err
}

// findMessage finds a message for who sends the request of ctx. Its id is as
// good as a run's.
func (s *Server) findMessage(ctx context.Context, thread, id string) (mailroom.Message, error) {
	if _, err := s.findThread(ctx, thread); err != nil {
		return mailroom.Message{}, err
	}
	return s.options.Ledger.Message(ctx, thread, id)
}

// maxFilterThreads bounds the threads that one reader of everything has judgements of.
const maxFilterThreads = 10_000

// newNoticeFilter judges for one reader of everything which notices it may have. It
// belongs to that reader's goroutine.
type noticeFilter struct {
	view    func(context.Context, func(mailroom.Reader) error) error
	who     *mailroom.Token
	threads map[string]bool // whether it sees them
}

func (s *Server) newNoticeFilter(who *mailroom.Token) *noticeFilter {
	return &noticeFilter{view: s.options.Ledger.View, who: who, threads: map[string]bool{}}
}

// allows reports whether the reader may have n. Notices come in order: one with
// the first entry of a log is of a new thread, whatever is known of its id. What
// is judged anew is judged by the entry or the run itself, which must be that of
// the thread there is: the notice may be of one that was deleted since.
func (s *noticeFilter) allows(ctx context.Context, n bus.Notice) (bool, error) {
	if len(n.Entries) == 0 && n.Delta == nil {
		return false, nil
	}
	if len(n.Entries) > 0 && n.Entries[0].Seq == 1 {
		delete(s.threads, n.Thread)
	}
	if good, known := s.threads[n.Thread]; known {
		return good, nil
	}
	good, same := false, false
	err := s.view(ctx, func(rd mailroom.Reader) error {
		rows, err := rd.Threads(mailroom.ThreadQuery{IDs: []string{n.Thread}})
		if err != nil || len(rows) == 0 {
			return err
		}
		good = s.who.Sees(rows[0])
		same, err = isCurrent(rd, n)
		return err
	})
	if err != nil || !same {
		return false, err
	}
	if len(s.threads) >= maxFilterThreads {
		clear(s.threads)
	}
	s.threads[n.Thread] = good
	return good, nil
}

// isCurrent reports whether n is about the thread that has its id now.
func isCurrent(rd mailroom.Reader, n bus.Notice) (bool, error) {
	if len(n.Entries) > 0 {
		told := &n.Entries[0]
		kept, err := rd.Entries(mailroom.EntryQuery{Thread: n.Thread, After: told.Seq - 1, Before: told.Seq + 1, Limit: 1})
		return err == nil && len(kept) == 1 && bytes.Equal(kept[0].JSON(), told.JSON()), err
	}
	runs, err := rd.Runs(mailroom.RunQuery{IDs: []string{n.Delta.Run}})
	return err == nil && len(runs) == 1 && runs[0].Thread == n.Thread, err
}
