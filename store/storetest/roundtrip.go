package storetest

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

func roundTripCases() []testCase {
	return []testCase{
		{"of threads", threadsAreKept},
		{"of runs", func(t *testing.T, s *handle) {
			zero, full := mailroom.Run{ID: "zero", Thread: "t"}, filled[mailroom.Run](2)
			full.Key, full.Thread = 0, "t"
			s.write(&store.Changes{
				Threads: []*mailroom.Thread{thread("t")}, Runs: []*mailroom.Run{&full, &zero},
			})
			wantSame(t, "runs", s.everything().Runs, []*mailroom.Run{&zero, &full})
		}},
		{"of tickets", ticketsAreKept},
		{"of empty values that are not nil", emptyIsNotMissing},
		{"of submit keys", func(t *testing.T, s *handle) {
			zero, full := store.SubmitKey{Thread: "t", Key: "zero"}, filled[store.SubmitKey](3)
			full.Thread = "t"
			keys := []store.SubmitKey{full, zero}
			s.write(&store.Changes{Threads: []*mailroom.Thread{thread("t")}, Keys: keys})
			s.view(func(r store.Reader) {
				wantSame(t, "keys", get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{full.Key, "zero"}}))(t), keys)
			})
		}},
		{"of workers", func(t *testing.T, s *handle) {
			zero, full := store.Worker{ID: "a"}, filled[store.Worker](5)
			rows := []*store.Worker{&zero, &full}
			s.write(&store.Changes{Workers: rows})
			wantSame(t, "workers", s.everything().Workers, rows)
			s.update(func(tx store.Tx) {
				got, _, err := Lock(tx, []string{"a", full.ID}, nil)
				must(t, err)
				wantSame(t, "locked workers", got, rows)
			})
		}},
		{"of partials", func(t *testing.T, s *handle) {
			full := filled[store.Partial](4)
			full.Thread, full.Run = "t", "r"
			rows := []store.Partial{{Thread: "t", Run: "r"}, full}
			s.write(&store.Changes{
				Threads: []*mailroom.Thread{thread("t")}, Runs: []*mailroom.Run{run("r", "t")}, Partials: rows,
			})
			wantSame(t, "partials", s.everything().Partials["r"], rows)
		}},
		{"of entries keeps their bytes", entryBytesAreKept},
		{"of any printable id", func(t *testing.T, s *handle) {
			for _, id := range []string{"Ünï cödé 日本 🧵", `"'%_?;--`, "telegram:-100:7", "a.b", "A", "a"} {
				s.write(&store.Changes{
					Threads: []*mailroom.Thread{thread(id)},
					Runs:    []*mailroom.Run{run("run of "+id, id)},
					Entries: [][]mailroom.Entry{entries(id, 1, "", entry.KindStep)},
				})
				all := s.everything()
				if got := all.Threads[0].ID; got != id {
					t.Errorf("thread id: got %q, want %q", got, id)
				}
				if got := all.Runs[0].Thread; got != id {
					t.Errorf("thread of a run: got %q, want %q", got, id)
				}
				if got := len(all.Entries[id]); got != 1 {
					t.Errorf("entries of %q: got %d, want 1", id, got)
				}
			}
		}},
	}
}

func threadsAreKept(t *testing.T, s *handle) {
	zero, full, claimed := mailroom.Thread{ID: "zero"}, waitingThread(1), claimedThread(2)
	full.Key, claimed.Key, claimed.DeletedAt = 0, 0, time.Time{}
	rows := []*mailroom.Thread{&full, &zero, &claimed}
	s.write(&store.Changes{Threads: rows})
	s.update(func(tx store.Tx) {
		_, got, err := Lock(tx, nil, []string{full.ID, "zero", claimed.ID})
		must(t, err)
		wantSame(t, "locked threads", got, rows)
	})
	s.update(func(tx store.Tx) {
		due, _, err := Due(tx, claimed.Due.At, []store.Capacity{{Slots: 1}})
		must(t, err)
		wantSame(t, "overdue claims", due, rows[2:])
	})
	s.update(func(tx store.Tx) {
		due, _, err := Due(tx, full.Due.At, []store.Capacity{{Agent: full.Due.Agent, Slots: 1, LastAttempt: true}})
		must(t, err)
		wantSame(t, "due threads", due, rows[:1])
	})
	wantSame(t, "threads", s.everything().Threads, []*mailroom.Thread{&claimed, &zero, &full})
	wantSame(t, "threads of a worker", get1(t, s, func(r store.Reader) ([]*mailroom.Thread, error) {
		return r.Threads(store.ThreadQuery{Worker: claimed.Worker})
	}), rows[2:])
}

func ticketsAreKept(t *testing.T, s *handle) {
	zero, full := mailroom.Ticket{ID: "zero", Thread: "t", Run: "r", Agent: "echo"}, filled[mailroom.Ticket](6)
	full.Key, full.Thread, full.Run, full.Agent = 0, "t", "r", "echo"
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{thread("t")}, Runs: []*mailroom.Run{run("r", "t")},
		Tickets: []*mailroom.Ticket{&full, &zero},
	})
	wantSame(t, "tickets", s.everything().Tickets, []*mailroom.Ticket{&zero, &full})
}

// emptyIsNotMissing checks that a pointer to a zero value is not stored as nil.
func emptyIsNotMissing(t *testing.T, s *handle) {
	text := ""
	r := run("r", "t")
	r.Reply, r.Error, r.Caller, r.Wait = &text, &mailroom.RunError{}, &mailroom.Caller{}, &mailroom.Wait{}
	row := thread("t")
	row.State = map[string]json.RawMessage{"": json.RawMessage(`{ }`), "a \"b\"": json.RawMessage(`{"n":  1.0}`)}
	s.write(&store.Changes{Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{r}})
	got := s.everything()
	wantSame(t, "runs", got.Runs, []*mailroom.Run{r})
	wantSame(t, "threads", got.Threads, []*mailroom.Thread{row})
}

func entryBytesAreKept(t *testing.T, s *handle) {
	want := entries("t", 1, "r", entry.KindMessage, entry.KindStep)
	for i, body := range []any{
		json.RawMessage(`{"spaces":  1, "html":"<b>&amp;</b>", "sep":"\u2028 \n"}`),
		mailroom.Message{ID: "m", Text: "two\nlines", Parts: mailroom.Text("two\nlines"), CreatedAt: base()},
		json.RawMessage(`{}`),
	} {
		e, err := entry.New("t", int64(3+i), entry.KindMessage, "", 0, base(), body)
		must(t, err)
		want = append(want, e)
	}
	s.write(&store.Changes{
		Threads: []*mailroom.Thread{thread("t")}, Entries: [][]mailroom.Entry{want},
	})
	got := s.everything().Entries["t"]
	if len(got) != len(want) {
		t.Fatalf("got %d entries, want %d", len(got), len(want))
	}
	for i, e := range want {
		if !bytes.Equal(got[i].Raw, e.Raw) {
			t.Errorf("entry %d: got %s, want %s", e.Seq, got[i].Raw, e.Raw)
		}
		decoded, err := entry.Parse(e.Raw)
		must(t, err)
		wantSame(t, "fields of an entry", got[i], decoded)
	}
}
