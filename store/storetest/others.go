package storetest

import (
	"slices"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

func otherCases() []testCase {
	return []testCase{
		{"Keys finds the keys of its thread only", func(t *testing.T, s *handle) {
			s.write(&store.Changes{
				Threads: []*mailroom.Thread{thread("t"), thread("u")},
				Keys:    []store.SubmitKey{key("t", "a"), key("t", "b"), key("u", "a"), key("u", "c")},
			})
			s.view(func(r store.Reader) {
				wantSame(t, "keys of t", get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{"b", "c", "none"}}))(t),
					[]store.SubmitKey{key("t", "b")})
				wantSame(t, "keys of u", get(r.Keys(store.KeyQuery{Thread: "u", Keys: []string{"a", "c"}}))(t),
					[]store.SubmitKey{key("u", "a"), key("u", "c")})
				wantSame(t, "all keys of t", get(r.Keys(store.KeyQuery{Thread: "t", All: true}))(t),
					[]store.SubmitKey{key("t", "a"), key("t", "b")})
				wantSame(t, "the keys of u behind a", get(r.Keys(store.KeyQuery{Thread: "u", All: true, After: "a", Limit: 1}))(t),
					[]store.SubmitKey{key("u", "c")})
				wantSame(t, "no keys", get(r.Keys(store.KeyQuery{Thread: "t", Keys: nil}))(t), []store.SubmitKey(nil))
				wantSame(t, "keys of no thread", get(r.Keys(store.KeyQuery{Thread: "none", Keys: []string{"a"}}))(t),
					[]store.SubmitKey(nil))
			})
		}},
		{"a key without a run of its own has the LastSeq of its thread, or that of its row", joinedKeys},
		{"Partials are appended, by offset", func(t *testing.T, s *handle) {
			c := &store.Changes{
				Threads:  []*mailroom.Thread{thread("t")},
				Runs:     []*mailroom.Run{run("r", "t"), run("r2", "t")},
				Partials: []store.Partial{partial("r", 0, "one "), partial("r2", 0, "other"), partial("r", 4, "two ")},
			}
			s.write(c, &store.Changes{Partials: []store.Partial{partial("r", 8, "three")}})
			got := s.everything().Partials
			wantSame(t, "partials of r", got["r"], []store.Partial{
				partial("r", 0, "one "), partial("r", 4, "two "), partial("r", 8, "three")})
			wantSame(t, "partials of r2", got["r2"], []store.Partial{partial("r2", 0, "other")})
			s.view(func(r store.Reader) {
				wantSame(t, "partials of several runs", get(r.Partials("r2", "none", "r2"))(t),
					[]store.Partial{partial("r2", 0, "other")})
				wantSame(t, "number of partials of several runs", len(get(r.Partials("r", "r2"))(t)), 4)
				wantSame(t, "partials of no run", get(r.Partials("none"))(t), []store.Partial(nil))
			})
		}},
		{"A partial replaces one at the same offset", func(t *testing.T, s *handle) {
			c := &store.Changes{
				Threads:  []*mailroom.Thread{thread("t")},
				Runs:     []*mailroom.Run{run("r", "t")},
				Partials: []store.Partial{partial("r", 0, "one "), partial("r", 4, "tw")},
			}
			s.write(c, &store.Changes{Partials: []store.Partial{partial("r", 4, "two "), partial("r", 8, "thr")}},
				&store.Changes{Partials: []store.Partial{partial("r", 8, "three"), partial("r", 8, "three and")}})
			wantSame(t, "partials of r", s.everything().Partials["r"], []store.Partial{
				partial("r", 0, "one "), partial("r", 4, "two "), partial("r", 8, "three and")})
		}},
		{"Workers are ordered by id, all or those that are named", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Workers: []*store.Worker{{ID: "c"}, {ID: "a"}, {ID: "b", Dead: true}}})
			wantSame(t, "workers", s.everything().Workers, []*store.Worker{{ID: "a"}, {ID: "b", Dead: true}, {ID: "c"}})
			s.view(func(r store.Reader) {
				named := get(r.Workers("c", "none", "b", "c"))(t)
				wantSame(t, "named workers", named, []*store.Worker{{ID: "b", Dead: true}, {ID: "c"}})
				wantSame(t, "workers that do not exist", len(get(r.Workers("none"))(t)), 0)
			})
		}},
		{"a due thread of each agent", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Threads: []*mailroom.Thread{
				thread("idle"), dueThread("1", "b", 1, after(100), false), dueThread("2", "a", 2, base(), true),
				dueThread("3", "b", 1, base(), false), dueThread("4", "b", 9, base(), true),
				dueThread("5", "a b", 9, base(), true),
			}})
			if got, want := s.everything().Agents, []string{"a", "a b", "b"}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}},
		{"an empty store has empty lists", func(t *testing.T, s *handle) {
			all := s.everything()
			if len(all.Threads)+len(all.Runs)+len(all.Workers)+len(all.Tokens)+len(all.Agents) != 0 {
				t.Errorf("got %v, want nothing", all)
			}
		}},
	}
}

func joinedKeys(t *testing.T, s *handle) {
	row := thread("t")
	row.LastSeq = 7
	queued, joined, copied := key("t", "queued"), key("t", "joined"), key("t", "copied")
	queued.Result.Disposition, copied.JoinedSeq = store.DispositionQueued, 3
	s.write(&store.Changes{Threads: []*mailroom.Thread{row}, Keys: []store.SubmitKey{queued, joined, copied}})
	joined.JoinedSeq = 7
	want := []store.SubmitKey{copied, joined, queued}
	wantSame(t, "keys", get1(t, s, func(r store.Reader) ([]store.SubmitKey, error) {
		return r.Keys(store.KeyQuery{Thread: "t", All: true})
	}), want)
	s.write(&store.Changes{Threads: []*mailroom.Thread{row}, DropEntries: []store.Prefix{{Thread: "t", Seq: 4}}})
	wantSame(t, "keys behind a purge", get1(t, s, func(r store.Reader) ([]store.SubmitKey, error) {
		return r.Keys(store.KeyQuery{Thread: "t", All: true})
	}), want[1:])
}

func dropCases() []testCase {
	return []testCase{
		{"partials, before others are appended", func(t *testing.T, s *handle) {
			s.write(&store.Changes{
				Threads:  []*mailroom.Thread{thread("t")},
				Runs:     []*mailroom.Run{run("r", "t"), run("r2", "t")},
				Partials: []store.Partial{partial("r", 0, "old"), partial("r", 3, "er"), partial("r2", 0, "other")},
			}, &store.Changes{
				DropPartials: []string{"r", "none"},
				Partials:     []store.Partial{partial("r", 0, "new")},
			})
			got := s.everything().Partials
			wantSame(t, "partials of r", got["r"], []store.Partial{partial("r", 0, "new")})
			wantSame(t, "partials of r2", got["r2"], []store.Partial{partial("r2", 0, "other")})
		}},
		{"workers", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Workers: []*store.Worker{{ID: "a"}, {ID: "b"}}},
				&store.Changes{DropWorkers: []string{"a", "none"}})
			wantSame(t, "workers", s.everything().Workers, []*store.Worker{{ID: "b"}})
		}},
		{"threads with all that belongs to them", func(t *testing.T, s *handle) {
			other := &store.Changes{
				Threads:  []*mailroom.Thread{dueThread("u", "a", 1, base(), false)},
				Runs:     []*mailroom.Run{run("ru", "u")},
				Entries:  [][]mailroom.Entry{entries("u", 1, "ru", entry.KindMessage, entry.KindQueued)},
				Keys:     []store.SubmitKey{key("u", "k")},
				Partials: []store.Partial{{Thread: "u", Run: "ru", Text: "kept"}},
				Tickets:  []*mailroom.Ticket{ticket("qu", "ru", "u")},
			}
			s.write(other)
			want := s.everything()
			c := fullChanges()
			c.Workers, c.Definitions, c.Tokens, c.Cursors, c.Pauses, c.Summaries = nil, nil, nil, nil, nil, nil
			c.Meters = nil
			s.write(c, &store.Changes{DropThreads: []string{"t", "none", "bare"}})
			wantSame(t, "rows", s.everything(), want)
			s.view(func(r store.Reader) {
				wantSame(t, "keys of u", get(r.Keys(store.KeyQuery{Thread: "u", Keys: []string{"k"}}))(t), other.Keys)
				wantSame(t, "dropped partials", get(r.Partials("r"))(t), []store.Partial(nil))
				wantSame(t, "tickets of a dropped run",
					get(r.Tickets(store.TicketQuery{Runs: []string{"r"}}))(t), []*mailroom.Ticket(nil))
				wantSame(t, "dropped entries", get(r.Entries(store.EntryQuery{Thread: "t"}))(t), []mailroom.Entry(nil))
			})
			again := fullChanges()
			again.Workers, again.Definitions, again.Tokens, again.Cursors, again.Pauses, again.Summaries = nil, nil, nil,
				nil, nil, nil
			again.Meters = nil
			s.write(again) // the dropped thread left nothing that conflicts
			s.view(func(r store.Reader) {
				wantSame(t, "keys of t", get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{"k"}}))(t), again.Keys)
			})
		}},
	}
}

func get1[T any](t *testing.T, s *handle, f func(store.Reader) (T, error)) T {
	t.Helper()
	var v T
	s.view(func(r store.Reader) { v = get(f(r))(t) })
	return v
}
