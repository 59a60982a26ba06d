package storetest

import (
	"slices"
	"testing"

	"mailroom"
	"mailroom/store"
)

func threadCases() []testCase {
	rows := func() *store.Changes {
		c := &store.Changes{}
		for _, id := range []string{"e", "d", "c", "b", "a"} { // keys in reverse order of ids
			c.Threads = append(c.Threads, thread(id))
		}
		c.Threads[0].Owner, c.Threads[2].Owner, c.Threads[3].Owner = "ann", "ann", "bob"
		c.Threads[1].Worker, c.Threads[1].Agent = "w", "x"
		c.Threads[3].Worker = "w"
		c.Threads[4].Worker, c.Threads[4].Agent = "w2", "x"
		return c
	}
	type query = store.ThreadQuery
	cases := []struct {
		name  string
		query func(c *store.Changes) query
		want  []string
		any   bool // order unspecified
	}{
		{"all, newest first", func(*store.Changes) query { return query{} }, []string{"a", "b", "c", "d", "e"}, false},
		{"oldest first", func(*store.Changes) query { return query{Oldest: true} }, []string{"e", "d", "c", "b", "a"}, false},
		{"limit", func(*store.Changes) query { return query{Limit: 2} }, []string{"a", "b"}, false},
		{"below a key", func(c *store.Changes) query { return query{From: c.Threads[2].Key} }, []string{"d", "e"}, false},
		{"above a key with oldest", func(c *store.Changes) query {
			return query{From: c.Threads[2].Key, Oldest: true, Limit: 1}
		}, []string{"b"}, false},
		{"these", func(*store.Changes) query {
			return query{IDs: []string{"a", "none", "d", "a"}}
		}, []string{"a", "d"}, true},
		{"these of an agent", func(*store.Changes) query {
			return query{IDs: []string{"a", "b"}, Agent: "x"}
		}, []string{"a"}, true},
		{"these of a worker", func(*store.Changes) query {
			return query{IDs: []string{"a", "b", "c"}, Worker: "w"}
		}, []string{"b"}, true},
		{"these below a key", func(c *store.Changes) query {
			return query{IDs: []string{"a", "c", "d"}, From: c.Threads[2].Key}
		}, []string{"d"}, true},
		{"of a worker", func(*store.Changes) query { return query{Worker: "w"} }, []string{"b", "d"}, false},
		{"of a worker, oldest first, from a key", func(c *store.Changes) query {
			return query{Worker: "w", Oldest: true, From: c.Threads[1].Key}
		}, []string{"b"}, false},
		{"of a worker and an agent", func(*store.Changes) query {
			return query{Worker: "w", Agent: "x"}
		}, []string{"d"}, false},
		{"of an agent", func(*store.Changes) query { return query{Agent: "x", Limit: 9} }, []string{"a", "d"}, false},
		{"of an owner", func(*store.Changes) query { return query{Owner: "ann"} }, []string{"c", "e"}, false},
		{"of an owner, below a key", func(c *store.Changes) query {
			return query{Owner: "ann", From: c.Threads[2].Key}
		}, []string{"e"}, false},
		{"of an owner and an agent", func(*store.Changes) query { return query{Owner: "bob", Agent: "x"} }, nil, false},
		{"these of an owner", func(*store.Changes) query {
			return query{Owner: "ann", IDs: []string{"a", "c"}}
		}, []string{"c"}, true},
		{"of an unknown owner", func(*store.Changes) query { return query{Owner: "none"} }, nil, false},
		{"of an unknown worker", func(*store.Changes) query { return query{Worker: "none"} }, nil, false},
	}
	return []testCase{{"by", func(t *testing.T, s *handle) {
		c := rows()
		s.write(c)
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				got := threadIDs(get1(t, s, func(r store.Reader) ([]*mailroom.Thread, error) { return r.Threads(tc.query(c)) }))
				if tc.any {
					slices.Sort(got)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			})
		}
	}}}
}

// someRuns returns runs of thread t, and three of u, in many states, oldest first.
func someRuns() *store.Changes {
	c := &store.Changes{Threads: []*mailroom.Thread{thread("t"), thread("u")}}
	add := func(id, thread string, change func(r *mailroom.Run)) {
		r := run(id, thread)
		r.Place = int64(len(c.Runs) + 1)
		change(r)
		c.Runs = append(c.Runs, r)
	}
	status := func(s mailroom.Status) func(*mailroom.Run) {
		return func(r *mailroom.Run) { r.Status, r.StartedAt, r.Agent = s, base(), "x" }
	}
	held := func(seconds int) func(*mailroom.Run) {
		return func(r *mailroom.Run) { r.Scheduled, r.NotBefore = true, after(seconds) }
	}
	add("done", "t", status(mailroom.StatusCompleted))
	add("failed", "t", status(mailroom.StatusFailed))
	add("cancelled", "t", func(r *mailroom.Run) { r.Status = mailroom.StatusCancelled })
	add("backoff", "t", status(mailroom.StatusQueued))
	add("q2", "t", func(*mailroom.Run) {})
	add("held2", "t", held(20))
	add("q3", "t", func(*mailroom.Run) {})
	add("q1", "t", func(r *mailroom.Run) { r.Priority = 3 })
	add("held1", "t", held(10))
	add("held3", "t", held(20))
	add("qu", "u", func(*mailroom.Run) {})
	add("running", "u", status(mailroom.StatusRunning))
	add("waiting", "u", status(mailroom.StatusWaiting))
	c.Threads[1].Current, c.Threads[1].Worker = "running", "w"
	c.Runs[2].Parent, c.Runs[10].Parent, c.Runs[11].Parent = "parent", "parent", "other"
	c.Runs[12].Parent = "parent"
	return c
}

// runCase is a query for the runs of someRuns.
type runCase struct {
	name  string
	query store.RunQuery
	from  func(*store.Changes) int64
	want  []string
	count int  // of all pages
	any   bool // order unspecified
}

func runLists() []runCase {
	type query = store.RunQuery
	fromHeld2 := func(c *store.Changes) int64 { return c.Runs[5].Key }
	return []runCase{
		{name: "all, newest first", count: 13, want: []string{"waiting", "running", "qu", "held3", "held1",
			"q1", "q3", "held2", "q2", "backoff", "cancelled", "failed", "done"}},
		{name: "limit", query: query{Limit: 2}, count: 13, want: []string{"waiting", "running"}},
		{name: "of a prefix, by id", query: query{Prefix: "q"}, count: 13, want: []string{"q1", "q2", "q3", "qu"}},
		{name: "of a prefix, a page", query: query{Prefix: "q", After: "q1", Limit: 2}, count: 13, want: []string{"q2", "q3"}},
		{name: "of a prefix that is an id", query: query{Prefix: "done"}, count: 13, want: []string{"done"}},
		{name: "of a prefix that no id has", query: query{Prefix: "z"}, count: 13},
		{name: "below a key", from: fromHeld2, count: 13, want: []string{"q2", "backoff", "cancelled", "failed", "done"}},
		{name: "of a thread", query: query{Thread: "u"}, count: 3, want: []string{"waiting", "running", "qu"}},
		{name: "of a thread, a page", query: query{Thread: "t", Limit: 2}, from: fromHeld2, count: 10,
			want: []string{"q2", "backoff"}},
		{name: "of an agent", query: query{Agent: "x"}, count: 5,
			want: []string{"waiting", "running", "backoff", "failed", "done"}},
		{name: "of a status", query: query{Statuses: []mailroom.Status{mailroom.StatusFailed}}, count: 1,
			want: []string{"failed"}},
		{name: "waiting runs", query: query{Statuses: []mailroom.Status{mailroom.StatusWaiting}}, count: 1,
			want: []string{"waiting"}},
		{name: "running runs", query: query{Statuses: []mailroom.Status{mailroom.StatusRunning}}, count: 1,
			want: []string{"running"}},
		{name: "running and failed runs",
			query: query{Statuses: []mailroom.Status{mailroom.StatusRunning, mailroom.StatusFailed}}, count: 2,
			want: []string{"running", "failed"}},
		{name: "of some statuses", query: query{Statuses: []mailroom.Status{mailroom.StatusCompleted, mailroom.StatusFailed,
			mailroom.StatusRunning, "none"}}, count: 3, want: []string{"running", "failed", "done"}},
		{name: "of an unknown status", query: query{Statuses: []mailroom.Status{"none"}}},
		{name: "of a thread, an agent and a status", query: query{Thread: "t", Agent: "x",
			Statuses: []mailroom.Status{mailroom.StatusQueued}}, count: 1, want: []string{"backoff"}},
		{name: "these", query: query{IDs: []string{"q1", "none", "done", "q1"}}, count: 2,
			want: []string{"done", "q1"}, any: true},
		{name: "these of a thread", query: query{IDs: []string{"q1", "qu"}, Thread: "u"}, count: 1,
			want: []string{"qu"}, any: true},
		{name: "these of an agent and a status", query: query{IDs: []string{"q1", "failed", "done"}, Agent: "x",
			Statuses: []mailroom.Status{mailroom.StatusFailed, mailroom.StatusQueued}}, count: 1, want: []string{"failed"},
			any: true},
		{name: "these below a key", query: query{IDs: []string{"q1", "done"}}, from: fromHeld2, count: 2,
			want: []string{"done"}, any: true},
		{name: "the queue by priority and place", query: query{Thread: "t", Set: store.RunsQueued}, count: 3,
			want: []string{"q1", "q2", "q3"}},
		{name: "the head of the queue", query: query{Thread: "t", Set: store.RunsQueued, Limit: 1}, count: 3,
			want: []string{"q1"}},
		{name: "the queue of an agent", query: query{Thread: "t", Set: store.RunsQueued, Agent: "x"}},
		{name: "the held ones by time and place", query: query{Thread: "t", Set: store.RunsScheduled}, count: 3,
			want: []string{"held1", "held2", "held3"}},
		{name: "the first held ones", query: query{Thread: "t", Set: store.RunsScheduled, Limit: 2}, count: 3,
			want: []string{"held1", "held2"}},
		{name: "of a parent, newest first", query: query{Parent: "parent"}, count: 3,
			want: []string{"waiting", "qu", "cancelled"}},
		{name: "of a parent, a page", query: query{Parent: "parent", Limit: 1}, from: fromHeld2, count: 3,
			want: []string{"cancelled"}},
		{name: "open ones of a parent", query: query{Parent: "parent", Statuses: []mailroom.Status{mailroom.StatusQueued,
			mailroom.StatusRunning, mailroom.StatusWaiting}}, count: 2, want: []string{"waiting", "qu"}},
		{name: "waiting ones of a parent", query: query{Parent: "parent",
			Statuses: []mailroom.Status{mailroom.StatusWaiting}}, count: 1, want: []string{"waiting"}},
		{name: "of a parent in a thread", query: query{Parent: "parent", Thread: "t"}, count: 1, want: []string{"cancelled"}},
		{name: "these of a parent", query: query{Parent: "parent", IDs: []string{"qu", "running"}}, count: 1,
			want: []string{"qu"}, any: true},
		{name: "of a parent without children", query: query{Parent: "qu"}},
		{name: "oldest first", query: query{Thread: "u", Oldest: true}, count: 3, want: []string{"qu", "running", "waiting"}},
		{name: "oldest first, of some statuses, a page", query: query{Statuses: []mailroom.Status{mailroom.StatusCompleted,
			mailroom.StatusFailed, mailroom.StatusQueued}, Oldest: true, Limit: 2}, from: fromHeld2, count: 10,
			want: []string{"q3", "q1"}},
		{name: "of some statuses, a page",
			query: query{Statuses: []mailroom.Status{mailroom.StatusCompleted, mailroom.StatusFailed,
				mailroom.StatusRunning, mailroom.StatusFailed}, Limit: 2}, count: 3, want: []string{"running", "failed"}},
		{name: "of no thread", query: query{Thread: "none"}},
	}
}

func runCases() []testCase {
	return []testCase{{"of an owner", runsOfAnOwner}, {"of an owner and of threads", runsWithin},
		{"of an error group", runsOfAGroup}, {"that failed are counted by error group", countedFailures},
		{"are counted by agent", runsOfEachAgent}, {"whose deadline has passed", overdueRuns},
		{"whose turn it is", nextRuns},
		{"by", func(t *testing.T, s *handle) {
			c := someRuns()
			s.write(c)
			for _, tc := range runLists() {
				t.Run(tc.name, func(t *testing.T) {
					q := tc.query
					if tc.from != nil {
						q.From = tc.from(c)
					}
					got := runIDs(get1(t, s, func(r store.Reader) ([]*mailroom.Run, error) { return r.Runs(q) }))
					if tc.any {
						slices.Sort(got)
					}
					if !slices.Equal(got, tc.want) {
						t.Errorf("got %v, want %v", got, tc.want)
					}
					if len(q.IDs) > 0 || q.Parent != "" {
						return
					}
					n := get1(t, s, func(r store.Reader) (store.Counts, error) {
						return r.Count(store.CountQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses, Set: q.Set})
					})
					if n.Sum() != tc.count {
						t.Errorf("count: got %d, want %d", n.Sum(), tc.count)
					}
					if q.Thread == "" {
						return
					}
					for most := 1; most <= tc.count+1; most++ {
						n := get1(t, s, func(r store.Reader) (store.Counts, error) {
							return r.Count(store.CountQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses, Set: q.Set, Most: most})
						})
						if n.Sum() != min(tc.count, most) {
							t.Errorf("count of at most %d: got %d, want %d", most, n.Sum(), min(tc.count, most))
						}
					}
				})
			}
		}}}
}
