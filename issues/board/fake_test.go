package board_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"mailroom"
	"mailroom/issues/board"
)

// fakeBoard is a board in memory. Each change gives an issue a later time.
type fakeBoard struct {
	// Owned by mu.
	mu       sync.Mutex
	issues   map[string]*board.Issue
	comments map[string][]board.Comment
	order    []string // ids by their last change
	clock    time.Time
	calls    int
	lost     func(op string) bool         // whether a write is carried out and its answer lost; may be nil
	before   func(op string, n int) error // fails the n-th call; may be nil
	dead     bool                         // the process was killed: no call arrives
	unread   map[string]bool              // issues that cannot be read
}

func newFakeBoard() *fakeBoard {
	return &fakeBoard{issues: map[string]*board.Issue{}, comments: map[string][]board.Comment{},
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// add adds issues with the label that the feed wants.
func (f *fakeBoard) add(ids ...string) {
	for _, id := range ids {
		f.mu.Lock()
		f.issues[id] = &board.Issue{ID: id, Native: "n" + id, Name: "r#" + id, Title: "Do " + id, Body: "It is broken.",
			Labels: []string{"agent"}, State: board.StateOpen, Priority: 2}
		f.mu.Unlock()
		f.edit(id, func(*board.Issue) {})
	}
}

// edit changes an issue like a person.
func (f *fakeBoard) edit(id string, change func(it *board.Issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change(id, change)
}

// change is edit for a caller that holds mu.
func (f *fakeBoard) change(id string, change func(it *board.Issue)) {
	it := *f.issues[id]
	it.Labels, it.Assignees = slices.Clone(it.Labels), slices.Clone(it.Assignees)
	change(&it)
	f.clock = f.clock.Add(time.Second)
	it.UpdatedAt = f.clock
	if it.CreatedAt.IsZero() {
		it.CreatedAt = f.clock
	}
	f.issues[id] = &it
	f.order = append(slices.DeleteFunc(f.order, func(s string) bool { return s == id }), id)
}

func (f *fakeBoard) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.issues, id)
	f.order = slices.DeleteFunc(f.order, func(s string) bool { return s == id })
}

func (f *fakeBoard) issue(id string) board.Issue {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it := f.issues[id]; it != nil {
		return *it
	}
	return board.Issue{}
}

// texts returns the comments of an issue.
func (f *fakeBoard) texts(id string) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.comments[id] {
		all = append(all, c.Text)
	}
	return all
}

// enter begins a call. The caller holds mu.
func (f *fakeBoard) enter(op string) error {
	f.calls++
	if f.before != nil && !f.dead {
		if err := f.before(op, f.calls); err != nil {
			return err
		}
	}
	if f.dead {
		return unavailable("the server is gone")
	}
	return nil
}

// leave ends a write that was carried out.
func (f *fakeBoard) leave(op string) error {
	if f.dead || f.lost != nil && f.lost(op) {
		return fmt.Errorf("%w: %w", mailroom.ErrUnknown, unavailable("the answer was lost"))
	}
	return nil
}

func unavailable(text string) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: fmt.Errorf("%s", text)}
}

func (f *fakeBoard) Account(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return "mailroom-bot", f.enter("account")
}

// Changes lists the changes in pages of two, with one that overlaps.
func (f *fakeBoard) Changes(_ context.Context, cursor string) (page board.Changes, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("changes"); err != nil {
		return page, err
	}
	nanos, _ := strconv.ParseInt(cursor, 10, 64)
	page.Next = cursor
	for _, id := range f.order {
		it := *f.issues[id]
		if it.UpdatedAt.UnixNano() < nanos || cursor == "" && it.State == board.StateClosed {
			continue
		}
		if len(page.Issues) == 2 {
			page.More = true
			break
		}
		page.Issues, page.Next = append(page.Issues, it), strconv.FormatInt(it.UpdatedAt.UnixNano(), 10)
	}
	return page, nil
}

func (f *fakeBoard) Issue(_ context.Context, id string) (board.Issue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("issue"); err != nil {
		return board.Issue{}, err
	}
	if f.unread[id] {
		return board.Issue{}, unavailable("a field is broken")
	}
	if it := f.issues[id]; it != nil {
		return *it, nil
	}
	return board.Issue{}, board.ErrGone
}

func (f *fakeBoard) Comment(_ context.Context, c board.Comment) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("comment"); err != nil {
		return err
	}
	f.comments[c.Issue] = append(f.comments[c.Issue], c)
	f.change(c.Issue, func(*board.Issue) {})
	return f.leave("comment")
}

func (f *fakeBoard) FindComment(_ context.Context, c board.Comment) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("find"); err != nil {
		return false, err
	}
	return slices.ContainsFunc(f.comments[c.Issue], func(o board.Comment) bool { return o.Key == c.Key }), nil
}

func (f *fakeBoard) Mark(_ context.Context, it board.Issue, m board.Mark) (board.Issue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.enter("mark"); err != nil {
		return it, err
	}
	states := map[board.Mark]board.State{board.MarkWorking: board.StateWorking, board.MarkClosed: board.StateClosed,
		board.MarkDone: board.StateDone, board.MarkBlocked: board.StateBlocked}
	f.change(it.ID, func(it *board.Issue) {
		if m != board.MarkNone && it.State != board.StateClosed {
			it.State = states[m]
		} else if it.State == board.StateWorking {
			it.State = board.StateOpen
		}
	})
	return *f.issues[it.ID], f.leave("mark")
}

func (f *fakeBoard) Status() string { return "" }
func (f *fakeBoard) Close()         {}

// ids returns the ids of all issues.
func (f *fakeBoard) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.issues))
}
