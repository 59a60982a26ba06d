package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
)

// reader follows one thread over any number of connections and processes. It must receive the log
// from its cursor on, without gaps or repeats, and streamed text must be a prefix of its message.
// It parses the events itself, because the API client drops repeats. One goroutine at a time owns
// it.
type reader struct {
	torture *torture
	thread  string
	name    string

	id    string // id of the last event
	seq   int64  // seq of the last entry
	texts map[string]*text
	over  map[string]bool // messages whose entry was read
}

// text is the part of an unfinished message that was read.
type text struct {
	run     string
	attempt int
	got     []byte
	grown   []sample
}

// sample is the length of a text at a time.
type sample struct {
	at     time.Time
	length int
}

func (t *torture) reader(thread, name string, after int64) *reader {
	return &reader{
		torture: t, thread: thread, name: name, seq: after, id: fmt.Sprint(after),
		texts: map[string]*text{}, over: map[string]bool{},
	}
}

// follow reads over one connection until it breaks or ctx ends. It reports whether the thread
// exists.
func (r *reader) follow(ctx context.Context, at target) (there bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url+"/v1/threads/"+url.PathEscape(r.thread)+"/stream",
		nil)
	if err != nil {
		r.bad("%v", err)
		return false
	}
	req.Header.Set("Authorization", "Bearer "+at.token)
	req.Header.Set("Last-Event-ID", r.id)
	resp, err := at.http.Do(req)
	if err != nil {
		return true // the server is not running
	}
	defer resp.Body.Close() // an error of closing the reading side does not matter
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode != http.StatusNotFound
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20)
	var name, id string
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		field, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(line) == 0:
			if data != nil {
				r.event(name, id, data)
			}
			name, id, data = "", "", nil
		case string(field) == "event":
			name = string(value)
		case string(field) == "id":
			id = string(value)
		case string(field) == "data":
			data = bytes.Clone(value)
		}
	}
	return true
}

func (r *reader) bad(format string, args ...any) {
	r.torture.violation(r.thread, "%s of thread %s, after event %s: %s", r.name, r.thread, r.id,
		fmt.Sprintf(format, args...))
}

func (r *reader) event(name, id string, data []byte) {
	r.torture.counts.events.Add(1)
	switch name {
	case api.EventEntry:
		e, err := entry.Parse(data)
		if err != nil {
			r.bad("%v", err)
			return
		}
		if id != fmt.Sprint(e.Seq) {
			r.bad("entry %d came as event %q", e.Seq, id)
		}
		r.entry(e)
	case api.EventDelta:
		var d entry.Delta
		if err := json.Unmarshal(data, &d); err != nil {
			r.bad("%v", err)
			return
		}
		if want := fmt.Sprintf("%d:%d", r.seq, d.Offset+len(d.Text)); id != want {
			r.bad("text up to byte %d came as event %q, want %q", d.Offset+len(d.Text), id, want)
		}
		r.delta(d)
	case api.EventGap:
		var g api.Gap
		if err := json.Unmarshal(data, &g); err != nil {
			r.bad("%v", err)
			return
		}
		r.gap(g)
	}
	r.id = id
}

func (r *reader) entry(e mailroom.Entry) {
	if e.Seq != r.seq+1 {
		r.bad("entry %d follows entry %d", e.Seq, r.seq)
	}
	r.seq = e.Seq
	r.torture.log(r.thread).add(e, r.name)
	switch e.Kind {
	case entry.KindMessage:
		if e.Attempt > 0 {
			r.checkWritten(e)
		}
	case entry.KindRescheduled, entry.KindFailed, entry.KindCancelled, entry.KindCompleted, entry.KindWaiting:
		for id, x := range r.texts {
			if x.run == e.Run {
				r.checkKept(id, x, 0)
				delete(r.texts, id)
			}
		}
	}
}

// checkWritten compares a message with its streamed text.
func (r *reader) checkWritten(e mailroom.Entry) {
	var m mailroom.Message
	if err := e.Decode(&m); err != nil {
		r.bad("%v", err)
		return
	}
	r.over[m.ID] = true
	x := r.texts[m.ID]
	if x == nil {
		return
	}
	delete(r.texts, m.ID)
	both := min(len(m.Text), len(x.got))
	if m.Text[:both] != string(x.got[:both]) {
		r.bad("message %s was streamed as %.80q but written as %.80q", m.ID, x.got, m.Text)
	}
	if len(x.got) > len(m.Text) {
		if !m.Partial {
			r.bad("message %s was streamed up to byte %d but written with %d", m.ID, len(x.got), len(m.Text))
		}
		r.checkKept(m.ID, x, len(m.Text))
	}
}

// flushWindow is the age below which streamed text may be lost: it is flushed once a second, and
// the machine may be slow.
const flushWindow = 2 * time.Second

// checkKept checks a text whose process ended before the message was complete: only the newest part may be missing
// from what the log kept.
func (r *reader) checkKept(id string, x *text, length int) {
	for _, s := range x.grown {
		if s.length > length && !r.torture.faults.near(s.at, flushWindow) {
			r.bad("message %s: %d bytes were streamed at %s, long before a fault, but only %d are kept", id, s.length,
				s.at.Format(time.StampMicro), length)
			return
		}
	}
}

func (r *reader) delta(d entry.Delta) {
	if !d.IsText() {
		return
	}
	r.torture.counts.deltas.Add(1)
	if r.over[d.Message] {
		r.bad("text of message %s, which was already written", d.Message)
	}
	x := r.texts[d.Message]
	if x == nil {
		x = &text{run: d.Run, attempt: d.Attempt}
		r.texts[d.Message] = x
	}
	if d.Offset > len(x.got) {
		r.bad("text of message %s at byte %d: the bytes from %d on are missing", d.Message, d.Offset, len(x.got))
		return
	}
	known := x.got[d.Offset:]
	if n := min(len(known), len(d.Text)); string(known[:n]) != d.Text[:n] {
		r.bad("text of message %s at byte %d is %q, but was %q", d.Message, d.Offset, d.Text[:n], known[:n])
	}
	if len(d.Text) > len(known) {
		x.got = append(x.got, d.Text[len(known):]...)
		x.grown = append(x.grown, sample{time.Now(), len(x.got)})
	}
}

// gap checks a gap in the stream, which is allowed only after a purge.
func (r *reader) gap(g api.Gap) {
	l := r.torture.log(r.thread)
	switch {
	case g.After != r.seq || g.Oldest <= r.seq+1 && r.seq <= g.Last:
		r.bad("gap after %d, with %d to %d kept, at entry %d", g.After, g.Oldest, g.Last, r.seq)
	case !r.torture.purges.Load():
		r.bad("gap after %d, but nothing was purged", g.After)
	case g.Oldest > l.length()+1:
		r.torture.counts.incomplete.Add(1)
		l.setIncomplete()
	}
	r.torture.counts.gaps.Add(1)
	r.seq = g.Oldest - 1
}

// target is a server to read from.
type target struct {
	url, token string
	http       *http.Client
}

// followAll follows until ctx ends, and reconnects with the last id.
func (r *reader) followAll(ctx context.Context, at target) {
	for ctx.Err() == nil && r.follow(ctx, at) {
		pause(ctx, 5*time.Millisecond)
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
