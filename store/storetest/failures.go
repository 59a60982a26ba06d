package storetest

import (
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// ownedRuns writes the threads a and c of ann, b of bob, and d without an owner, and eight runs in
// turn: a1, b1, c1, d1, a2, b2, c2, d2. Those of a and b have failed with the error group x, those of c
// with y.
func ownedRuns(s *handle) *store.Changes {
	c := &store.Changes{}
	for _, t := range []struct{ id, owner, group string }{{"a", "ann", "x"}, {"b", "bob", "x"}, {"c", "ann", "y"},
		{"d", "", ""}} {
		row := thread(t.id)
		row.Owner, row.LastSeq = t.owner, 2
		c.Threads, c.Entries = append(c.Threads, row), append(c.Entries,
			entries(t.id, 1, t.id+"1", entry.KindMessage, entry.KindMessage))
		for n, id := range []string{t.id + "1", t.id + "2"} {
			r := run(id, t.id)
			r.FirstSeq = int64(n + 1)
			if t.group != "" {
				r.Status, r.ErrorGroup, r.StartedAt, r.FinishedAt = mailroom.StatusFailed, t.group, base(), after(n)
			}
			c.Runs = append(c.Runs, r)
		}
	}
	slices.SortStableFunc(c.Runs, func(a, b *mailroom.Run) int { return int(a.FirstSeq - b.FirstSeq) })
	s.write(c)
	return c
}

func (s *handle) wantRuns(what string, q store.RunQuery, want ...string) {
	s.t.Helper()
	got := runIDs(get1(s.t, s, func(r store.Reader) ([]*mailroom.Run, error) { return r.Runs(q) }))
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func runsOfAnOwner(t *testing.T, s *handle) {
	key := ownedRuns(s).Runs[4].Key // of a2
	type query = store.RunQuery
	s.wantRuns("of ann", query{Owner: "ann"}, "c2", "a2", "c1", "a1")
	s.wantRuns("of bob", query{Owner: "bob"}, "b2", "b1")
	s.wantRuns("of a stranger", query{Owner: "eve"})
	s.wantRuns("oldest first", query{Owner: "ann", Oldest: true}, "a1", "c1", "a2", "c2")
	s.wantRuns("a page", query{Owner: "ann", From: key, Limit: 1}, "c1")
	s.wantRuns("a page, oldest first", query{Owner: "ann", From: key, Oldest: true}, "c2")
	s.wantRuns("a page of bytes", query{Owner: "ann", Bytes: 1}, "c2")

	s.write(&store.Changes{DropThreads: []string{"a"}, DropEntries: []store.Prefix{{Thread: "c", Seq: 2}}})
	s.wantRuns("after drops", query{Owner: "ann"}, "c2")
}

func runsWithin(t *testing.T, s *handle) {
	c := ownedRuns(s)
	key := c.Runs[4].Key // of a2
	b, d := c.Threads[1].Key, c.Threads[3].Key
	type query = store.RunQuery
	s.wantRuns("of ann and b", query{Owner: "ann", Threads: []int64{b}}, "c2", "b2", "a2", "c1", "b1", "a1")
	s.wantRuns("of ann, b and d", query{Owner: "ann", Threads: []int64{d, b}}, "d2", "c2", "b2", "a2", "d1", "c1",
		"b1", "a1")
	s.wantRuns("of b and d", query{Threads: []int64{b, d}}, "d2", "b2", "d1", "b1")
	s.wantRuns("of a stranger and d", query{Owner: "eve", Threads: []int64{d, 77}}, "d2", "d1")
	s.wantRuns("of no thread", query{Threads: []int64{77}})
	s.wantRuns("oldest first", query{Owner: "bob", Threads: []int64{d}, Oldest: true, Limit: 3}, "b1", "d1", "b2")
	s.wantRuns("a page", query{Owner: "ann", Threads: []int64{b}, From: key, Limit: 2}, "c1", "b1")
	s.wantRuns("a page, oldest first", query{Owner: "ann", Threads: []int64{b}, From: key, Oldest: true}, "b2", "c2")
	s.wantRuns("a page of bytes", query{Owner: "ann", Threads: []int64{d}, Bytes: 1, Limit: 5}, "d2")
	s.wantRuns("of ann and x", query{Owner: "ann", Group: "x"}, "a2", "a1")
	s.wantRuns("of ann and x, a page", query{Owner: "ann", Group: "x", From: key, Limit: 1}, "a1")
	s.wantRuns("of bob and y", query{Owner: "bob", Group: "y"})
}

// nextRuns checks RunsNext, among threads with many runs, one with one and one without a queue.
func nextRuns(t *testing.T, s *handle) {
	c := someRuns()
	c.Threads = append(c.Threads, thread("idle"))
	s.write(c)
	at, u, idle := c.Threads[0].Key, c.Threads[1].Key, c.Threads[2].Key
	next := func(what string, threads []int64, want ...string) {
		t.Helper()
		got := runIDs(get1(t, s, func(r store.Reader) ([]*mailroom.Run, error) {
			return r.Runs(store.RunQuery{Threads: threads, Set: store.RunsNext})
		}))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	next("of each", []int64{u, idle, at, 7777}, "q1", "qu")
	next("of one", []int64{u}, "qu")
	next("of none", []int64{idle})
	c.Runs[7].Status, c.Runs[7].StartedAt = mailroom.StatusCompleted, base() // q1
	s.write(&store.Changes{Threads: c.Threads[:1], Runs: c.Runs[7:8]})
	next("after the first", []int64{at}, "q2")
}

func runsOfAGroup(t *testing.T, s *handle) {
	c := ownedRuns(s)
	type query = store.RunQuery
	key := c.Runs[4].Key // of a2
	s.wantRuns("of x", query{Group: "x"}, "b2", "a2", "b1", "a1")
	s.wantRuns("of y", query{Group: "y"}, "c2", "c1")
	s.wantRuns("of no group", query{Group: "z"})
	s.wantRuns("oldest first", query{Group: "x", Oldest: true}, "a1", "b1", "a2", "b2")
	s.wantRuns("a page", query{Group: "x", From: key, Limit: 1}, "b1")
	s.wantRuns("a page, oldest first", query{Group: "x", From: key, Oldest: true}, "b2")
	s.wantRuns("a page of bytes", query{Group: "x", Bytes: 1}, "b2")

	// A transaction that names the thread of a run, and one that does not.
	change := func(threads []*mailroom.Thread, r *mailroom.Run, status mailroom.Status, group string) {
		r.Status, r.ErrorGroup = status, group
		s.write(&store.Changes{Threads: threads, Runs: []*mailroom.Run{r}})
	}
	change(c.Threads[:1], c.Runs[0], mailroom.StatusQueued, "")
	s.wantRuns("after a retry", query{Group: "x"}, "b2", "a2", "b1")
	change(nil, c.Runs[0], mailroom.StatusFailed, "y")
	s.wantRuns("after another failure", query{Group: "y"}, "c2", "c1", "a1")
	change(nil, c.Runs[0], mailroom.StatusFailed, "x") // retried and failed in one transaction
	s.wantRuns("after a failure of a failed run", query{Group: "x"}, "b2", "a2", "b1", "a1")
	s.wantRuns("before that failure", query{Group: "y"}, "c2", "c1")
	change(nil, c.Runs[0], mailroom.StatusFailed, "")
	s.wantRuns("after a failure without a group", query{Group: "x"}, "b2", "a2", "b1")
	change(c.Threads[1:2], c.Runs[1], mailroom.StatusCompleted, "x")
	s.wantRuns("after the end of another run", query{Group: "x"}, "b2", "a2")

	s.write(&store.Changes{DropThreads: []string{"a"}, DropEntries: []store.Prefix{{Thread: "c", Seq: 2}}})
	s.wantRuns("after the drop of a thread", query{Group: "x"}, "b2")
	s.wantRuns("after the drop of entries", query{Group: "y"}, "c2")
}

func runsOfEachAgent(t *testing.T, s *handle) {
	c := ownedRuns(s)
	c.Runs[0].Status = mailroom.StatusQueued // a1
	s.write(&store.Changes{Threads: c.Threads[:1], Runs: c.Runs[:1]})
	agent, unset := c.Runs[0].Agent, c.Runs[3].Status
	count := func(owner *string) map[string]map[mailroom.Status]int {
		return get1(t, s, func(r store.Reader) (store.Counts, error) {
			return r.Count(store.CountQuery{ByAgent: true, Owner: owner})
		}).Agents
	}
	ann, eve := "ann", "eve"
	want := map[mailroom.Status]int{mailroom.StatusFailed: 5, mailroom.StatusQueued: 1}
	want[unset] += 2 // those of d
	wantSame(t, "all", count(nil), map[string]map[mailroom.Status]int{agent: want})
	wantSame(t, "of an owner", count(&ann),
		map[string]map[mailroom.Status]int{agent: {mailroom.StatusFailed: 3, mailroom.StatusQueued: 1}})
	wantSame(t, "of a stranger", count(&eve), map[string]map[mailroom.Status]int(nil))
}

func countedFailures(t *testing.T, s *handle) {
	c := ownedRuns(s)
	count := func(q store.CountQuery) []store.FailureCount {
		q.Failures = true
		found := get1(t, s, func(r store.Reader) (store.Counts, error) { return r.Count(q) }).Failures
		slices.SortFunc(found, func(a, b store.FailureCount) int { return strings.Compare(a.Group, b.Group) })
		return found
	}
	agent := c.Runs[0].Agent
	x := store.FailureCount{Group: "x", Agent: agent, Runs: 4, First: after(0), Last: after(1), Newest: "b2",
		Key: c.Runs[5].Key}
	y := store.FailureCount{Group: "y", Agent: agent, Runs: 2, First: after(0), Last: after(1), Newest: "c2",
		Key: c.Runs[6].Key}
	wantSame(t, "all", count(store.CountQuery{}), []store.FailureCount{x, y})
	x.Runs, x.First = 2, after(1)
	y.Runs, y.First = 1, after(1)
	wantSame(t, "the newest three", count(store.CountQuery{Most: 3}), []store.FailureCount{x, y})
	ann, eve := "ann", "eve"
	x = store.FailureCount{Group: "x", Agent: agent, Runs: 2, First: after(0), Last: after(1), Newest: "a2",
		Key: c.Runs[4].Key}
	y.Runs, y.First = 2, after(0)
	wantSame(t, "of an owner", count(store.CountQuery{Owner: &ann}), []store.FailureCount{x, y})
	wantSame(t, "of a stranger", count(store.CountQuery{Owner: &eve}), []store.FailureCount(nil))

	other := run("b3", "b")
	other.Agent, other.FirstSeq = "another", 3
	other.Status, other.ErrorGroup, other.StartedAt, other.FinishedAt = mailroom.StatusFailed, "x", base(), after(2)
	c.Threads[1].LastSeq = 3
	s.write(&store.Changes{
		Threads: c.Threads[1:2], Runs: []*mailroom.Run{other},
		Entries: [][]mailroom.Entry{entries("b", 3, "b3", entry.KindMessage)},
	})
	x = store.FailureCount{Group: "x", Agent: "another", Runs: 1, First: after(2), Last: after(2), Newest: "b3",
		Key: other.Key}
	wantSame(t, "of an agent", count(store.CountQuery{Agent: "another"}), []store.FailureCount{x})
	x = store.FailureCount{Group: "x", Agent: agent, Runs: 1, First: after(1), Last: after(1), Newest: "b2",
		Key: c.Runs[5].Key}
	y = store.FailureCount{Group: "y", Agent: agent, Runs: 1, First: after(1), Last: after(1), Newest: "c2",
		Key: c.Runs[6].Key}
	wantSame(t, "the newest two of an agent", count(store.CountQuery{Agent: agent, Most: 2}), []store.FailureCount{x, y})
	wantSame(t, "of an agent without failures", count(store.CountQuery{Agent: "none"}), []store.FailureCount(nil))
}
