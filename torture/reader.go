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
)

// reader follows one thread over any number of connections and processes. What
// it gets must be the log from its cursor on, nothing missing and nothing twice,
// and the text of a message must be a beginning of the message. It reads the
// events itself: the client would drop what comes twice. It belongs to one
// goroutine at a time.
type reader struct {
	home   *torture
	thread string
	name   string

	id    string // of the last event
	seq   int64  // of the last entry
	texts map[string]*text
	over  map[string]bool // messages whose entry was read
}

// text is a message that is being written, as far as it was read.
type text struct {
	run     string
	attempt int
	got     []byte
	grown   []sample
}

// sample is how much of a text was there at a time.
type sample struct {
	at     time.Time
	length int
}

func (t *torture) reader(thread, name string, after int64) *reader {
	return &reader{
		home: t, thread: thread, name: name, seq: after, id: fmt.Sprint(after),
		texts: map[string]*text{}, over: map[string]bool{},
	}
}

// follow reads over one connection, until that breaks or ctx ends. It says
// whether the thread is there.
func (r *reader) follow(ctx context.Context, at target) (there bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url+"/v1/threads/"+url.PathEscape(r.thread)+"/stream", nil)
	if err != nil {
		r.bad("%v", err)
		return false
	}
	req.Header.Set("Authorization", "Bearer "+at.token)
	req.Header.Set("Last-Event-ID", r.id)
	resp, err := at.http.Do(req)
	if err != nil {
		return true // no server, or no longer
	}
	defer resp.Body.Close() // nothing depends on how the reading side is closed
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
	r.home.violation(r.thread, "%s of thread %s, after event %s: %s", r.name, r.thread, r.id, fmt.Sprintf(format, args...))
}

func (r *reader) event(name, id string, data []byte) {
	r.home.counts.events.Add(1)
	switch name {
	case api.EventEntry:
		e, err := mailroom.ParseEntry(data)
		if err != nil {
			r.bad("%v", err)
			return
		}
		if id != fmt.Sprint(e.Seq) {
			r.bad("entry %d came as event %q", e.Seq, id)
		}
		r.entry(e)
	case api.EventDelta:
		var d mailroom.Delta
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
	r.home.log(r.thread).add(e, r.name)
	switch e.Kind {
	case mailroom.KindMessage:
		if e.Attempt > 0 {
			r.written(e)
		}
	case mailroom.KindRescheduled, mailroom.KindFailed, mailroom.KindCancelled, mailroom.KindCompleted, mailroom.KindWaiting:
		for id, x := range r.texts {
			if x.run == e.Run {
				r.kept(id, x, 0)
				delete(r.texts, id)
			}
		}
	}
}

// written compares a message with the text that came before it.
func (r *reader) written(e mailroom.Entry) {
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
		r.bad("message %s was streamed as %.80q and written as %.80q", m.ID, x.got, m.Text)
	}
	if len(x.got) > len(m.Text) {
		if !m.Partial {
			r.bad("message %s was streamed up to byte %d and written with %d", m.ID, len(x.got), len(m.Text))
		}
		r.kept(m.ID, x, len(m.Text))
	}
}

// lost is how old a streamed text may be and yet be missing: it is kept once a
// second, and the machine may be slow.
const lost = 2 * time.Second

// kept checks that of a text that ended with its process only what came last is
// missing.
func (r *reader) kept(id string, x *text, length int) {
	end := r.home.lastKill()
	for _, s := range x.grown {
		if s.length > length && s.at.Before(end.Add(-lost)) {
			r.bad("message %s: %d bytes were streamed %s before the kill, and %d are kept", id, s.length, end.Sub(s.at), length)
			return
		}
	}
}

func (r *reader) delta(d mailroom.Delta) {
	r.home.counts.deltas.Add(1)
	if r.over[d.Message] {
		r.bad("text of message %s, which was written already", d.Message)
	}
	x := r.texts[d.Message]
	if x == nil {
		x = &text{run: d.Run, attempt: d.Attempt}
		r.texts[d.Message] = x
	}
	if d.Offset > len(x.got) {
		r.bad("text of message %s at byte %d, the bytes from %d on are missing", d.Message, d.Offset, len(x.got))
		return
	}
	known := x.got[d.Offset:]
	if n := min(len(known), len(d.Text)); string(known[:n]) != d.Text[:n] {
		r.bad("text of message %s at byte %d is %q, it was %q", d.Message, d.Offset, d.Text[:n], known[:n])
	}
	if len(d.Text) > len(known) {
		x.got = append(x.got, d.Text[len(known):]...)
		x.grown = append(x.grown, sample{time.Now(), len(x.got)})
	}
}

// gap is legal where something was purged.
func (r *reader) gap(g api.Gap) {
	l := r.home.log(r.thread)
	switch {
	case g.After != r.seq || g.Oldest <= r.seq+1 && r.seq <= g.Last:
		r.bad("a gap after %d, with %d to %d kept, at entry %d", g.After, g.Oldest, g.Last, r.seq)
	case !r.home.purges.Load():
		r.bad("a gap after %d, and nothing was purged", g.After)
	case g.Oldest > l.length()+1:
		r.home.counts.blind.Add(1)
		l.lose()
	}
	r.home.counts.gaps.Add(1)
	r.seq = g.Oldest - 1
}

// target is a server to read from.
type target struct {
	url, token string
	http       *http.Client
}

// steady follows until ctx ends, and reconnects with the last id.
func (r *reader) steady(ctx context.Context, at target) {
	for ctx.Err() == nil && r.follow(ctx, at) {
		pause(ctx, 5*time.Millisecond)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
