package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/store"
)

func copyCases() []testCase {
	return []testCase{
		{"what was given can be changed after Write", func(t *testing.T, s *handle) {
			c := fullChanges()
			s.write(c)
			before := s.everything()
			spoil(contents{Threads: c.Threads, Runs: c.Runs, Workers: c.Workers, Tickets: c.Tickets, Tokens: c.Tokens,
				Kept: c.Definitions, Cursors: c.Cursors, Reserved: c.Reservations})
			spoilKey(&c.Keys[0])
			wantSame(t, "rows", s.everything(), before)
			wantOriginalKey(t, s)
		}},
		{"what was returned can be changed", func(t *testing.T, s *handle) {
			s.write(fullChanges())
			before := s.everything()
			spoil(s.everything())
			s.update(func(tx store.Tx) {
				all := read(t, tx)
				spoil(all)
				due, _, err := Due(tx, after(1000), []store.Capacity{{Agent: before.Agents[0], Slots: 1, LastAttempt: true}})
				must(t, err)
				workers, threads, err := Lock(tx, []string{"w"}, []string{"t"})
				must(t, err)
				spoil(contents{Threads: append(threads, due...), Workers: workers})
			})
			s.view(func(r store.Reader) { spoilKey(&get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{"k"}}))(t)[0]) })
			wantSame(t, "rows", s.everything(), before)
			wantOriginalKey(t, s)
		}},
	}
}

func wantOriginalKey(t *testing.T, s *handle) {
	t.Helper()
	s.view(func(r store.Reader) {
		got := get(r.Keys(store.KeyQuery{Thread: "t", Keys: []string{"k"}}))(t)
		if diff := cmp.Diff(fullChanges().Keys, got, same()); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
}

// spoil modifies everything that the rows refer to.
func spoil(c contents) {
	for _, t := range c.Threads {
		t.Agent = "spoiled"
		clear(t.Metadata)
		for agent := range t.State {
			clear(t.State[agent])
			t.State[agent] = nil
		}
	}
	for _, k := range c.Tickets {
		clear(k.Arguments)
		clear(k.Answer)
		*k.ExpiresAt, *k.DecidedAt = time.Time{}, time.Time{}
		k.Name = "spoiled"
	}
	for _, a := range c.Tokens {
		clear(a.Scopes)
		clear(a.Agents)
		clear(a.Terms.Scopes)
		clear(a.Terms.Threads)
		a.Sum = "spoiled"
	}
	for _, d := range c.Kept {
		clear(d.Body)
	}
	for _, row := range c.Cursors {
		clear(row.Position)
	}
	clear(c.Reserved)
	for _, r := range c.Runs {
		spoilRun(r)
	}
	for _, list := range c.Entries {
		for i := range list {
			clear(list[i].Body)
			list[i].Seq = -1
		}
	}
	for _, list := range c.Partials {
		clear(list)
	}
	for _, w := range c.Workers {
		w.Host = "spoiled"
		clear(w.Agents)
	}
}

func spoilRun(r *mailroom.Run) {
	clear(r.Options)
	clear(r.Checkpoint)
	clear(r.Metadata)
	clear(r.Joined)
	clear(r.Inputs)
	clear(r.Lineage)
	clear(r.Spent)
	if r.Caller != nil {
		r.Caller.Name = "spoiled"
	}
	if r.Wait != nil {
		clear(r.Wait.Names)
		r.Wait.Any = false
	}
	for _, s := range r.Steers {
		if s.Own != nil {
			spoilRun(s.Own)
		}
	}
	clear(r.Steers)
	if r.Reply != nil {
		*r.Reply = "spoiled"
	}
	if r.Error != nil {
		r.Error.Message = "spoiled"
	}
	r.Agent = "spoiled"
}

func spoilKey(k *store.SubmitKey) {
	clear(k.Result.Superseded)
	*k.Result.Stopping = "spoiled"
}
