package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"mailroom/api"
	"mailroom/internal/check"
	"mailroom/internal/display"
	"mailroom/internal/reserved"
)

// MaxOwn bounds the open schedules of a book.
const MaxOwn = 20

// minAhead is how far ahead a run may schedule a message to its own thread. A thread that schedules the next message
// from each of its runs thus makes at most MaxOwn runs a minute.
const minAhead = time.Minute

// Book is the state of a thread that keeps the schedules of another thread: those that the runs of that thread make,
// and the users of its chat. Each schedule has a number from 1 to MaxOwn, which is free again once it is over. So the
// bound holds whatever happens at the same time: one agent gives the numbers out, in the order of its messages.
type Book struct {
	Thread string `json:"thread"` // the thread that it keeps the schedules of
	Slots  []slot `json:"slots"`  // the open ones, by number
}

// slot is an open schedule of a book.
type slot struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Made   string `json:"made"` // see Own
}

// Own is the place of a schedule in a book.
type Own struct {
	Thread string `json:"thread"` // the thread of the book
	Name   string `json:"name"`
	Made   string `json:"made"` // run that asked for it: an earlier one of its number has another
	// Born is when the thread was created: the schedule ends with it. Zero: the thread may not exist yet.
	Born time.Time `json:"born,omitzero"`
	User string    `json:"user,omitempty"` // user of a chat who made it; it ends with their access
}

// Request is a message to a book, as JSON: what a run asks of the schedules of its own thread, or the server for the
// user of a chat.
type Request struct {
	Op   string            `json:"op"`             // set, cancel or list
	Name string            `json:"name,omitempty"` // "": the number that a new one gets. To cancel one, also its number
	Spec *api.ScheduleSpec `json:"spec,omitempty"` // for set, without a thread or with the thread of the book
}

// Operations of a Request.
const (
	RequestSet    = "set"    // makes a schedule, or changes the one of the name
	RequestCancel = "cancel" // ends one
	requestList   = "list"
)

// ServerRequest is a Request by the server.
type ServerRequest struct {
	Request
	Thread string `json:"thread"`         // of the book
	By     string `json:"by"`             // who asks
	User   string `json:"user,omitempty"` // see Own
	// To is the target of the message, if it is not the thread of the book.
	To string `json:"to,omitempty"`
}

// ReadRequest decodes a request of a run or, with server, of the server.
func ReadRequest(raw []byte, server bool) (r ServerRequest, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if server {
		err = d.Decode(&r)
	} else {
		err = d.Decode(&r.Request)
	}
	if err != nil {
		return r, fmt.Errorf(`is no request such as {"op":"set","name":"check","spec":{"at":"20m","text":"Look again."}}: %w`,
			err)
	}
	return r, nil
}

// Look is what a book finds when it carries out a request.
type Look struct {
	Own    Own            // of a new schedule; Name is set by [Book.Do]
	States map[int]*State // of its schedules, by number: nil if it has none yet, missing if its thread does not exist
	Source string         // row of the token whose rights a new schedule has
	Run    string         // of the request
	Now    time.Time
	Asked  ServerRequest
	ByRun  bool // a run asks, not the server
	// Check returns why the agent would refuse the message of a schedule; nil: that is unknown.
	Check func(*Spec) error
}

// Sent is a command that a book sends.
type Sent struct {
	Number  int
	Command Command
}

// Name returns the name of the send, unique in the run of a request.
func (s Sent) Name() string { return string(s.Command.Op) + " " + strconv.Itoa(s.Number) }

// Do carries out a request. It returns the commands to send, and the answer.
func (b *Book) Do(id string, l *Look) (sends []Sent, answer api.OwnSchedules) {
	b.prune(l.States)
	var err error
	switch l.Asked.Op {
	case RequestSet:
		sends, answer, err = b.set(id, l)
	case RequestCancel:
		sends, answer, err = b.cancel(id, l)
	case requestList:
		for _, s := range b.Slots {
			answer.Items = append(answer.Items, show(id, s, l.States[s.Number]))
		}
	default:
		err = fmt.Errorf("the operation %q is unknown: use set, cancel or list", display.Cut(l.Asked.Op, 40))
	}
	if err != nil {
		return nil, Refuse(err.Error())
	}
	if answer.Items == nil {
		answer.Items = []api.OwnSchedule{}
	}
	return sends, answer
}

// prune frees the numbers of the schedules that are over.
func (b *Book) prune(states map[int]*State) {
	b.Slots = slices.DeleteFunc(b.Slots, func(s slot) bool {
		state, exists := states[s.Number]
		if !exists {
			return true // its thread was deleted: it exists as soon as the book has the number
		}
		return state != nil && state.Own != nil && state.Own.Made == s.Made && state.Over()
	})
}

func (b *Book) set(id string, l *Look) ([]Sent, api.OwnSchedules, error) {
	spec, err := b.read(l)
	if err != nil {
		return nil, api.OwnSchedules{}, err
	}
	name := l.Asked.Name
	at := slices.IndexFunc(b.Slots, func(s slot) bool { return s.Name == name })
	if name == "" {
		at = -1
	}
	if at < 0 {
		if at, err = b.take(name, l.Run); err != nil {
			return nil, api.OwnSchedules{}, err
		}
	}
	found := b.Slots[at]
	own := l.Own
	own.Name, own.Made = found.Name, found.Made
	c := Command{Op: OpSet, By: l.Asked.By, Source: l.Source, Spec: &spec, Own: &own}
	made, _, why := Do(l.States[found.Number], reserved.OwnScheduleID(id, found.Number), copied(c), l.Now, l.Now)
	if why != "" {
		return nil, api.OwnSchedules{}, fmt.Errorf("%s", why)
	}
	return []Sent{{found.Number, c}}, api.OwnSchedules{Items: []api.OwnSchedule{show(id, found, made)}}, nil
}

// copied returns a command whose spec can be changed alone.
func copied(c Command) Command {
	spec := *c.Spec
	c.Spec = &spec
	return c
}

// read returns the checked spec of a request.
func (b *Book) read(l *Look) (spec Spec, err error) {
	if l.Asked.Spec == nil {
		return spec, check.Invalid("spec", "is missing: it says when the message is sent, and its text", "")
	}
	if name := l.Asked.Name; name != "" {
		if err := CheckName(name); err != nil {
			return spec, err
		}
		if _, err := strconv.Atoi(name); err == nil {
			return spec, check.Invalid("name", "is a number: the numbers are given out", name)
		}
	}
	given := *l.Asked.Spec
	if given.Thread != "" && given.Thread != b.Thread {
		return spec, check.Invalid("spec.thread", "is another thread: leave it out", given.Thread)
	}
	given.Thread = b.Thread
	if l.Asked.To != "" {
		given.Thread = l.Asked.To
	}
	if spec, err = ReadSpec(&given, l.Now); err != nil {
		return spec, err
	}
	if l.ByRun && !spec.At.IsZero() && spec.At.Before(l.Now.Add(minAhead)) {
		return spec, check.Invalid("spec.at", fmt.Sprintf("is less than %s ahead", minAhead), given.At)
	}
	if l.Check != nil {
		err = l.Check(&spec)
	}
	return spec, err
}

// take gives the next free number out. name is "" if the schedule is named by it.
func (b *Book) take(name, made string) (at int, err error) {
	if len(b.Slots) >= MaxOwn {
		return 0, fmt.Errorf("%d schedules of the thread are open: cancel one, or wait until one is over", MaxOwn)
	}
	number := 1
	for _, s := range b.Slots {
		if s.Number == number {
			number, at = number+1, at+1
		}
	}
	if name == "" {
		name = strconv.Itoa(number)
	}
	b.Slots = slices.Insert(b.Slots, at, slot{Number: number, Name: name, Made: made})
	return at, nil
}

func (b *Book) cancel(id string, l *Look) ([]Sent, api.OwnSchedules, error) {
	at := slices.IndexFunc(b.Slots, func(s slot) bool {
		return s.Name == l.Asked.Name || strconv.Itoa(s.Number) == l.Asked.Name
	})
	if at < 0 {
		return nil, api.OwnSchedules{}, fmt.Errorf("no open schedule %q", display.Cut(l.Asked.Name, maxName))
	}
	found := b.Slots[at]
	b.Slots = slices.Delete(b.Slots, at, at+1)
	c := Command{Op: opEnd, By: l.Asked.By, Own: &Own{Thread: b.Thread, Name: found.Name, Made: found.Made}}
	shown := show(id, found, l.States[found.Number])
	return []Sent{{found.Number, c}}, api.OwnSchedules{Items: []api.OwnSchedule{shown}}, nil
}

// shownText is how many characters of a message the schedules of a book show, so that the answer stays small.
const shownText = 200

// show returns what a book shows of a schedule. state is nil while the schedule is being made.
func show(id string, s slot, state *State) api.OwnSchedule {
	out := api.OwnSchedule{Number: s.Number, Name: s.Name}
	_, out.Schedule = reserved.SchedulePlace(reserved.OwnScheduleID(id, s.Number))
	if state == nil || state.Own == nil || state.Own.Made != s.Made {
		return out
	}
	out.When, out.Zone, out.Text = state.Spec.when(), state.Spec.Zone, state.Spec.Text
	if utf8.RuneCountInString(out.Text) > shownText {
		out.Text = display.Cut(out.Text, shownText)
	}
	if at := state.NextFire(); !at.IsZero() {
		out.NextAt = &at
	}
	if state.Paused != nil {
		out.Paused = state.Paused.Note
	}
	return out
}

// DecodeBook returns the state that the agent of a book has kept, a new one if it has kept none.
func DecodeBook(raw json.RawMessage, thread string) (*Book, error) {
	b := &Book{Thread: thread, Slots: []slot{}}
	if len(raw) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, fmt.Errorf("decode a book of schedules: %w", err)
	}
	return b, nil
}

// Refuse returns the answer of a book that does nothing. why says so for people.
func Refuse(why string) api.OwnSchedules {
	return api.OwnSchedules{Refused: why, Items: []api.OwnSchedule{}}
}
