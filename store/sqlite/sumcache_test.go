package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
)

// endOf writes the end of a run of an agent, in a number of hours from now.
func endOf(t *testing.T, s *Store, agent string, hours int) {
	t.Helper()
	writeSums(t, s, &store.Changes{Summaries: []store.Summary{hourOf(agent, hours)}})
}

func hourOf(agent string, hours int) store.Summary {
	at := now().Truncate(store.StepHour).Add(time.Duration(hours) * store.StepHour)
	return store.Summary{Sums: store.Sums{Runs: 1, Cost: 7}, Key: store.SummaryKey{Step: store.StepHour, At: at,
		Agent: agent, Status: mailroom.StatusCompleted}}
}

func writeSums(t *testing.T, s *Store, c *store.Changes) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
}

// hoursOf asks for the hours from now until and with the current one.
func hoursOf(hours int, agents ...string) *store.SummaryQuery {
	to := now().Truncate(store.StepHour).Add(store.StepHour)
	return &store.SummaryQuery{Step: store.StepHour, From: to.Add(-time.Duration(hours) * store.StepHour), To: to, Of: agents}
}

// compareSums reads sums in a snapshot with and without those that the store keeps.
func compareSums(t *testing.T, r store.Reader, q *store.SummaryQuery) {
	t.Helper()
	kept := r.(reader)
	fresh := kept
	fresh.sums = nil
	got, err := readSummaries(kept, q)
	if err != nil {
		t.Fatal(err)
	}
	want, err := readSummaries(fresh, q)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%d agents from %v: got %+v, want %+v", len(q.Of), q.From, got, want)
	}
}

// Whatever two handles of a file write, and whatever snapshot a reader has, kept sums are what the rows add up to.
func TestKeptSumsAreThoseOfTheSnapshot(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), "mail.db")
		handles := []*Store{openAt(t, path, Options{}), openAt(t, path, Options{})}
		ask := func(r store.Reader) {
			agents := []string{"", "a", "b", "c"}
			compareSums(t, r, hoursOf(3+4*random.IntN(2), agents[random.IntN(2):4]...))
		}
		newest := -6 // runs end later and later, but for some
		change := func() {
			s := handles[max(random.IntN(3)-1, 0)] // mostly the first
			hours := newest - random.IntN(3)
			if random.IntN(3) == 0 {
				hours = -random.IntN(9)
			}
			if newest < 0 && random.IntN(6) == 0 {
				newest++
			}
			c := &store.Changes{Summaries: []store.Summary{hourOf(string("abc"[random.IntN(3)]), hours)}}
			if random.IntN(6) == 0 {
				before := now().Truncate(store.StepHour).Add(-time.Duration(random.IntN(8)) * store.StepHour)
				c.DropSummaries = []store.SummariesBefore{{Step: store.StepHour, At: before}}
			}
			writeSums(t, s, c)
		}
		for range 60 {
			err := handles[0].View(t.Context(), func(r store.Reader) error {
				if random.IntN(2) == 0 {
					ask(r) // the snapshot begins here
				}
				for range random.IntN(3) {
					change()
					err := handles[0].View(t.Context(), func(r store.Reader) error { ask(r); return nil })
					if err != nil {
						return err
					}
				}
				ask(r)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The periods that have ended are read once, until a row of one of them changes.
func TestSumsOfEndedPeriodsAreReadOnce(t *testing.T) {
	s := openTest(t, Options{})
	// The hour must not end during the test: then the hours before it are others.
	if left := now().Truncate(store.StepHour).Add(store.StepHour).Sub(now()); left < time.Minute {
		t.Skip("the hour is about to end")
	}
	for hours := range 5 {
		endOf(t, s, "a", -hours)
	}
	statements := func() (n int64) {
		t.Helper()
		before := s.Traffic().Statements
		err := s.View(t.Context(), func(r store.Reader) error {
			_, err := r.Count(store.CountQuery{Summaries: hoursOf(4, "a", "b")})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return s.Traffic().Statements - before
	}
	const kept, read = 4, 5 // BEGIN, the revision, the current hour, ROLLBACK; and the hours before
	for _, step := range []struct {
		what  string
		write func()
		want  int64
	}{
		{"at first", func() {}, read},
		{"again", func() {}, kept},
		{"after an end of this hour", func() { endOf(t, s, "a", 0) }, kept},
		{"after an end of an agent that was not asked for", func() { endOf(t, s, "z", 0) }, kept},
		{"after an end of the hour before", func() { endOf(t, s, "a", -1) }, read},
		{"again after it", func() {}, kept},
		{"after an end long ago", func() { endOf(t, s, "a", -3) }, read},
		{"after a transaction that writes none", func() { writeSums(t, s, &store.Changes{}) }, kept},
		{"after a drop of rows before", func() {
			writeSums(t, s, &store.Changes{DropSummaries: []store.SummariesBefore{
				{Step: store.StepHour, At: now().Add(-90 * store.StepHour)}}})
		}, kept},
		{"after a drop of rows among them", func() {
			writeSums(t, s, &store.Changes{DropSummaries: []store.SummariesBefore{{Step: store.StepHour, At: now()}}})
		}, read},
	} {
		if step.write(); statements() != step.want {
			t.Errorf("%s: not %d statements", step.what, step.want)
		}
	}
}

func TestKeptSumsAreBounded(t *testing.T) {
	var c sumCache
	agents := make([]string, maxSumAgents+1)
	for i := range agents {
		agents[i] = fmt.Sprint(i)
	}
	c.put(sumRange{step: store.StepDay}, agents, 1, nil)
	if len(c.entries) > 0 {
		t.Errorf("it keeps the sums of %d agents", len(agents))
	}
	for i := range int64(2 * maxSumEntries) {
		c.put(sumRange{step: store.StepDay, from: i}, agents[:2], 1, nil)
		if _, ok := c.get(sumRange{step: store.StepDay}, agents[:2], 1); !ok {
			t.Fatalf("the entry that is always used was evicted by number %d", i)
		}
	}
	if len(c.entries) != maxSumEntries {
		t.Errorf("%d entries, want %d", len(c.entries), maxSumEntries)
	}
}
