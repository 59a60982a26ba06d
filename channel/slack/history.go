package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/channel/chat"
)

const (
	mostPlaces = 100 // channels, and threads, of which the position knows how far they were read
	onePage    = 200 // messages
	mostPages  = 10  // of one room, at once
)

// places are how far the rooms were read that were heard of last: the time of the last
// message of a channel, by its id, and of a thread, by the id of what began it.
type places struct {
	read map[string]string
	// left are rooms whose history is to be read. What comes meanwhile does not move
	// them: it is not the next after what was read.
	left map[string]bool
}

// readPlaces reads a position; nil if it is none. All its rooms are left.
func readPlaces(position string) *places {
	p := &places{read: map[string]string{}, left: map[string]bool{}}
	if position == "" {
		return p
	}
	if err := json.Unmarshal([]byte(position), &p.read); err != nil {
		return nil
	}
	maps.DeleteFunc(p.read, func(at, last string) bool { return at == "" || !timeForm.MatchString(last) })
	for at := range p.read {
		p.left[at] = true
	}
	return p
}

// String is the position.
func (p *places) String() string {
	raw, err := json.Marshal(p.read)
	if err != nil {
		panic(err) // it is text
	}
	return string(raw)
}

// saw notes a message that came. A thread is one to know of once the bot has to do
// with it.
func (p *places) saw(m message, e chat.Event, bot string) {
	if at := place(m); at == m.Channel {
		p.reach(at, m.TS, false)
	}
	if e.Room.Topic == "" {
		return
	}
	at := id(m.Channel, e.Room.Topic)
	if _, known := p.read[at]; known || e.Addressed || m.Parent == bot {
		p.reach(at, m.TS, false)
	}
}

// reach moves a room on; one that is left only if that is what its history has.
func (p *places) reach(at, ts string, history bool) {
	last, known := p.read[at]
	if p.left[at] && !history || known && !before(last, ts) {
		return
	}
	p.read[at] = ts
	if known {
		return
	}
	var alike []string // a channel makes no room for threads
	for other := range p.read {
		if strings.Contains(other, ":") == strings.Contains(at, ":") {
			alike = append(alike, other)
		}
	}
	if len(alike) > mostPlaces {
		p.forget(slices.MinFunc(alike, p.byTime))
	}
}

// place is the room in whose history a message is.
func place(m message) string {
	if m.Thread == "" || m.Thread == m.TS {
		return m.Channel
	}
	return id(m.Channel, m.Thread)
}

// byTime orders rooms by what was read last.
func (p *places) byTime(a, b string) int {
	switch x, y := p.read[a], p.read[b]; {
	case before(x, y):
		return -1
	case before(y, x):
		return 1
	}
	return 0
}

func (p *places) forget(at string) {
	delete(p.read, at)
	delete(p.left, at)
}

// next is the room that is to be read next, the one that was heard of last.
func (p *places) next() (at string, ok bool) {
	all := slices.Collect(maps.Keys(p.left))
	if len(all) == 0 {
		return "", false
	}
	return slices.MaxFunc(all, p.byTime), true
}

// catchUp takes what was said in a room since it was read last, if the platform tells
// it now.
func (in *receiving) catchUp(ctx context.Context, at string) error {
	if time.Now().Before(in.quiet) {
		return nil
	}
	said, more, err := in.since(ctx, at, in.places.read[at])
	if err != nil {
		in.quiet = time.Now().Add(in.untold(ctx, at, err))
		return in.over(ctx, nil)
	}
	for _, m := range said {
		in.places.reach(at, m.TS, true)
		if err := in.one(ctx, m); err != nil {
			return err
		}
		if channel, _, thread := parts(at); !thread && m.Latest != "" && before(m.TS, m.Latest) {
			replies := id(channel, m.TS)
			in.places.reach(replies, m.TS, true)
			in.places.left[replies] = true
		}
	}
	if !more {
		delete(in.places.left, at)
	}
	return nil
}

// untold decides what becomes of a room whose history cannot be read, and returns the
// time to wait before a history is asked for again. A refusal that concerns the room
// leaves that room out.
func (in *receiving) untold(ctx context.Context, at string, err error) time.Duration {
	switch {
	case refusedAs(err, ofScope):
		in.once.Do(func() { in.link.Trouble(fmt.Errorf("what was said meanwhile is not known everywhere: %w", err)) })
		delete(in.places.left, at)
		return 0
	case refusedAs(err, ofToken):
		in.checkToken(ctx)
	case refusedAs(err, ofMessage, ofRoom, ofAbsence):
		in.link.Log().Info("the history of a room cannot be read", "room", at, "error", err)
		in.places.forget(at)
		return 0
	}
	in.link.Log().Info("the history of a room is read later", "room", at, "error", err)
	if after := afterOf(err); after > 0 {
		return after
	}
	return someWait
}

// since are messages of a room after one, in their order. A channel is told from its
// end, and what is too far back is lost; a thread from its beginning, and there may be
// more of it.
func (c *connection) since(ctx context.Context, at, last string) (said []message, more bool, err error) {
	channel, thread, ok := parts(at)
	if !ok {
		channel, thread = at, ""
	}
	cursor := ""
	for range mostPages {
		page, next, err := c.page(ctx, channel, thread, last, cursor, false)
		if err != nil {
			return nil, false, err
		}
		for _, m := range page {
			if before(last, m.TS) {
				said = append(said, m)
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if cursor != "" && thread == "" {
		c.link.Trouble(fmt.Errorf("more was said in %s meanwhile than is read: %d messages are", at, len(said)))
	}
	slices.SortFunc(said, func(a, b message) int {
		if before(a.TS, b.TS) {
			return -1
		}
		return 1
	})
	return said, cursor != "" && thread != "" && len(said) > 0, nil
}

// page reads a part of a history: of a channel, or of a thread in it. next is where
// the rest of it is, "" for none.
func (c *connection) page(ctx context.Context, channel, thread, oldest, cursor string, metadata bool) (said []message, next string, err error) {
	method, in := "conversations.history", values("channel", channel, "ts", thread, "oldest", oldest, "cursor", cursor, "limit", fmt.Sprint(onePage))
	if thread != "" {
		method = "conversations.replies"
	}
	if metadata {
		in.Set("include_all_metadata", "true")
	}
	var out struct {
		Messages []json.RawMessage `json:"messages"`
		More     bool              `json:"has_more"`
		Metadata struct {
			Cursor string `json:"next_cursor"`
		} `json:"response_metadata"`
	}
	if _, err := c.client.call(ctx, call{what: "read a history", method: method, in: in, out: &out}); err != nil {
		return nil, "", err
	}
	for _, raw := range out.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil || !timeForm.MatchString(m.TS) {
			c.link.Log().Warn("a message of a history is not understood and left out", "channel", channel, "error", err)
			continue
		}
		m.Channel = channel
		said = append(said, m)
	}
	if out.More {
		next = out.Metadata.Cursor
	}
	return said, next, nil
}
