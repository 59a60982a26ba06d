package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
)

// still returns a torture that runs nothing.
func still() *torture {
	return &torture{logs: map[string]*threadLog{}, histories: map[string]*history{}, stop: func(error) {}}
}

func killedAt(at time.Time) span { return span{at, at} }

func event(t *testing.T, thread string, seq int64, kind, run string, attempt int, body any) mailroom.Entry {
	t.Helper()
	e, err := entry.New(thread, seq, kind, run, attempt, time.Now().UTC(), body)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func raw(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// feed gives a reader the start of a log, and then the events of f.
func feed(t *testing.T, f func(r *reader, entry func(kind string, attempt int, body any),
	delta func(offset int, text string))) string {
	t.Helper()
	home := still()
	r := home.reader("t", "the reader", 0)
	item := func(kind string, attempt int, body any) {
		e := event(t, "t", r.seq+1, kind, "a", attempt, body)
		r.event(api.EventEntry, fmt.Sprint(e.Seq), raw(t, e))
	}
	delta := func(offset int, text string) {
		d := entry.Delta{Run: "a", Attempt: 1, Message: "a.1-1", Offset: offset, Channel: "text", Text: text}
		r.event(api.EventDelta, fmt.Sprintf("%d:%d", r.seq, offset+len(text)), raw(t, d))
	}
	item(entry.KindMessage, 0, mailroom.Message{ID: "a.1", Seq: 1, Run: "a", Text: "hello"})
	item(entry.KindQueued, 0, entry.RunQueued{Messages: []string{"a.1"}})
	item(entry.KindStarted, 1, entry.RunStarted{Messages: []int64{1}})
	f(r, item, delta)
	var found []string
	for _, v := range home.violations() {
		found = append(found, v.what)
	}
	return strings.Join(found, "\n")
}

func TestAReaderFindsErrorsOfAStream(t *testing.T) {
	said := func(text string, partial bool) mailroom.Message {
		return mailroom.Message{ID: "a.1-1", Seq: 4, Run: "a", Text: text, Partial: partial, Role: mailroom.RoleAssistant}
	}
	type feeding = func(r *reader, entry func(string, int, any), delta func(int, string))
	for name, x := range map[string]struct {
		f    feeding
		want string
	}{
		"no error": {func(_ *reader, item func(string, int, any), delta func(int, string)) {
			delta(0, "one ")
			delta(0, "one two ")
			delta(8, "three")
			item(entry.KindMessage, 1, said("one two three", false))
		}, ""},
		"a lost delta": {func(_ *reader, _ func(string, int, any), delta func(int, string)) {
			delta(0, "one ")
			delta(8, "three")
		}, "the bytes from 4 on are missing"},
		"another text at the same place": {func(_ *reader, _ func(string, int, any), delta func(int, string)) {
			delta(0, "one ")
			delta(0, "two ")
		}, `is "two ", but was "one "`},
		"another text in the message": {func(_ *reader, item func(string, int, any), delta func(int, string)) {
			delta(0, "one ")
			item(entry.KindMessage, 1, said("two three", false))
		}, "written as"},
		"a message that is shorter than its text": {func(_ *reader, item func(string, int, any), delta func(int, string)) {
			delta(0, "one two")
			item(entry.KindMessage, 1, said("one", false))
		}, "but written with 3"},
		"text after its message": {func(_ *reader, item func(string, int, any), delta func(int, string)) {
			item(entry.KindMessage, 1, said("one", false))
			delta(0, "one")
		}, "was already written"},
		"unsaved text": {func(r *reader, item func(string, int, any), delta func(int, string)) {
			delta(0, "one two")
			r.torture.faults.add(killedAt(time.Now().Add(2 * flushWindow)))
			item(entry.KindMessage, 1, said("one", true))
		}, "only 3 are kept"},
		"text without a stored part": {func(r *reader, item func(string, int, any), delta func(int, string)) {
			delta(0, "one two")
			r.torture.faults.add(killedAt(time.Now().Add(2 * flushWindow)))
			item(entry.KindRescheduled, 1, entry.RunRescheduled{Reason: "lease_lost", Attempt: 1})
		}, "only 0 are kept"},
		"unsaved text of the last moment": {func(r *reader, item func(string, int, any), delta func(int, string)) {
			delta(0, "one two")
			r.torture.faults.add(killedAt(time.Now()))
			item(entry.KindMessage, 1, said("one", true))
		}, ""},
		"an entry twice": {func(r *reader, item func(string, int, any), _ func(int, string)) {
			r.seq--
			item(entry.KindStep, 1, entry.StepNamed{Name: "s"})
		}, "it was"},
		"a gap without a purge": {func(r *reader, _ func(string, int, any), _ func(int, string)) {
			r.event(api.EventGap, "", []byte(`{"after":3,"oldest":9,"last":9}`))
		}, "nothing was purged"},
	} {
		t.Run(name, func(t *testing.T) {
			got := feed(t, x.f)
			if x.want == "" && got != "" || !strings.Contains(got, x.want) {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

// happening is a fact with the times of its call and its answer.
type happening struct {
	kind, run string
	place     int64
	from, to  int
	row       *api.Thread
}

func operations(history []happening) (list []porcupine.Operation) {
	for _, h := range history {
		f := fact{kind: h.kind, run: h.run, order: order{priority: 128, place: h.place}, row: h.row}
		list = append(list, operationOf(f, time.Unix(0, int64(10*h.from+10)), time.Unix(0, int64(10*h.to+10))))
	}
	return list
}

func TestTheModelRefusesImpossibleHistories(t *testing.T) {
	queued := func(run string, place int64, from, to int) happening {
		return happening{"queued", run, place, from, to, nil}
	}
	start := func(run string, from, to int) happening { return happening{"start", run, 0, from, to, nil} }
	end := func(run string, from, to int) happening { return happening{"end", run, 0, from, to, nil} }
	read := func(current string, n int, from, to int) happening {
		row := &api.Thread{Queued: n}
		if current != "" {
			row.ActiveRun = &current
		}
		return happening{"read", "", 0, from, to, row}
	}
	for name, x := range map[string]struct {
		history []happening
		legal   bool
	}{
		"one after the other": {[]happening{queued("a", 1, 0, 1), start("a", 2, 3), end("a", 4, 5), queued("b", 2, 6, 7),
			start("b", 8, 9)}, true},
		"two at a time": {[]happening{queued("a", 1, 0, 1), queued("b", 2, 0, 1), start("a", 2, 3),
			start("b", 4, 5)}, false},
		"the second first": {[]happening{queued("a", 1, 0, 1), queued("b", 2, 2, 3), start("b", 4, 5)},
			false},
		"places against the order of calls": {[]happening{queued("a", 2, 0, 1), queued("b", 1, 2, 3)}, false},
		"places of calls at the same time":  {[]happening{queued("a", 2, 0, 3), queued("b", 1, 1, 4)}, true},
		"a stale read":                      {[]happening{queued("a", 1, 0, 1), read("", 0, 2, 3)}, false},
		"a read at the same time":           {[]happening{queued("a", 1, 0, 3), read("", 0, 1, 2)}, true},
		"a read of a running run":           {[]happening{queued("a", 1, 0, 1), start("a", 2, 3), read("a", 0, 4, 5)}, true},
		"a read of an ended run": {[]happening{queued("a", 1, 0, 1), start("a", 2, 3), end("a", 4, 5),
			read("a", 0, 6, 7)}, false},
		"a start of an unknown run": {[]happening{start("a", 0, 1)}, false},
		"a start again after a lost claim": {[]happening{queued("a", 1, 0, 1), start("a", 2, 3), start("a", 4, 5),
			end("a", 6, 7)}, true},
		"an unknown queued run": {[]happening{end("a", 0, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			home := still()
			l := &threadLog{thread: "t", torture: home, state: newThreadState("t")}
			home.checkLinearizable(l, modelState{}, operations(x.history))
			if got := len(home.violations()) == 0; got != x.legal {
				t.Errorf("legal: %t, want %t: %v", got, x.legal, home.violations())
			}
		})
	}
}
