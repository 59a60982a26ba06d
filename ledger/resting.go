package ledger

import "mailroom"

// resting are threads as the last transaction left them: those with a current
// run or a queue, which the next one would have to load again. They are hints:
// one is used only if the locked row still has its revision. A batch takes them
// out, and puts them back once it is committed.
//
// It has two generations. What was not used while a new one filled is forgotten.
type resting struct {
	young, old map[string]*mailroom.Loaded
}

// maxResting bounds each generation.
const maxResting = 2048

func newResting() resting {
	return resting{young: map[string]*mailroom.Loaded{}, old: map[string]*mailroom.Loaded{}}
}

// take returns the thread of a locked row, resting or new.
func (r *resting) take(row *mailroom.Thread) *mailroom.Loaded {
	t, ok := r.young[row.ID]
	if !ok {
		t = r.old[row.ID]
	}
	delete(r.young, row.ID)
	delete(r.old, row.ID)
	if t == nil || t.Key != row.Key || t.Revision != row.Revision {
		return mailroom.Load(row)
	}
	return t
}

func (r *resting) put(t *mailroom.Loaded) {
	if !t.Rest() {
		return
	}
	if len(r.young) >= maxResting {
		r.young, r.old = r.old, r.young
		clear(r.young)
	}
	r.young[t.ID] = t
}
