package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// reader answers queries from one state.
type reader struct {
	*state
	now time.Time
}

// Now implements [store.Reader].
func (r reader) Now() time.Time { return r.now }

func (r reader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	if q.OnePerAgent {
		return r.dueEach(), nil
	}
	var found []*mailroom.Thread
	rows := r.threads.all()
	if len(q.IDs) > 0 {
		rows = r.threads.some(q.IDs)
	}
	for _, t := range rows {
		switch {
		case t.DeletedAt.IsZero() == q.Deleted:
		case q.DeliverTo != "" && t.DeliverTo != q.DeliverTo:
		case !strings.HasPrefix(t.ID, q.Prefix) || t.ID <= q.After:
		case q.Worker != "" && t.Worker != q.Worker:
		case q.Agent != "" && t.Agent != q.Agent:
		case q.Owner != "" && t.Owner != q.Owner:
		case q.From != 0 && q.Oldest && t.Key <= q.From:
		case q.From != 0 && !q.Oldest && t.Key >= q.From:
		default:
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Thread) int {
		if q.Prefix != "" {
			return cmp.Compare(a.ID, b.ID)
		}
		if q.Oldest {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Compare(b.Key, a.Key)
	})
	found, err := within(first(found, q.Limit), q.Bytes)
	for i, t := range found {
		found[i] = copyThread(t)
	}
	return found, err
}

func (r reader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	found, err := within(first(r.selectRuns(q), q.Limit), q.Bytes)
	for i, run := range found {
		found[i] = copyRun(run)
	}
	return found, err
}

func (r reader) Count(q store.CountQuery) (store.Counts, error) {
	switch {
	case q.Summaries != nil:
		return r.readSummaries(q.Summaries), nil
	case q.Meters != nil:
		return store.Counts{Meters: r.readMeters(q.Meters)}, nil
	case q.Failures:
		return store.Counts{Failures: r.countFailures(q)}, nil
	case q.ByAgent:
		var out store.Counts
		for _, run := range r.runs.all() {
			if t, _ := r.threads.get(run.Thread); q.Owner == nil || *q.Owner == t.Owner {
				out.AddAgent(run.Agent, run.Status, 1)
			}
		}
		return out, nil
	}
	out := store.Counts{Runs: map[mailroom.Status]int{}}
	owned := func(t *mailroom.Thread) bool { return q.Owner == nil || *q.Owner == t.Owner }
	for _, run := range first(r.selectRuns(store.RunQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses,
		Set: q.Set}), q.Most) {
		if q.Owner != nil {
			if t, _ := r.threads.get(run.Thread); !owned(t) {
				continue
			}
		}
		out.Runs[run.Status]++
	}
	if q.Agent != "" || len(q.Statuses) > 0 || q.Thread != "" {
		return out, nil
	}
	for _, t := range r.threads.all() {
		if !owned(t) {
			continue
		}
		out.Threads++
		atGate := strings.HasPrefix(t.Due.Agent, store.GatePrefix)
		if at := t.Due.At; t.Due.Agent != "" && !atGate && !at.IsZero() && (out.Due.IsZero() || at.Before(out.Due)) {
			out.Due = at
		}
	}
	return out, nil
}

func (r reader) readSummaries(q *store.SummaryQuery) (out store.Counts) {
	if len(q.Of) > 0 {
		return r.readSummariesOf(q)
	}
	after := q.After
	after.Step = q.Step
	for key, sums := range r.summary.all() {
		switch {
		case key.Step != q.Step, q.Agent != nil && key.Agent != *q.Agent, key.At.Before(q.From), !q.To.IsZero() &&
			!key.At.Before(q.To):
		case q.After == (store.SummaryKey{}) || key.Compare(after) > 0:
			out.Summaries = append(out.Summaries, store.Summary{Key: key, Sums: sums})
		}
	}
	store.SortSummaries(out.Summaries)
	out.Summaries = first(out.Summaries, q.Limit)
	for i := range out.Summaries {
		if q.Keys {
			out.Summaries[i].Sums = store.Sums{}
		}
	}
	return out
}

func (r reader) readSummariesOf(q *store.SummaryQuery) (out store.Counts) {
	found := map[string]store.Summary{}
	ended := map[store.SummaryKey]store.Sums{} // runs by agent and status
	for key, sums := range r.summary.all() {
		if key.Step != q.Step || !slices.Contains(q.Of, key.Agent) {
			continue
		}
		if !q.Last {
			if key.At.Before(q.From) || !key.At.Before(q.To) {
				continue
			}
			key.At = q.From
			ended[key] = ended[key].Plus(store.Sums{Runs: sums.Runs})
		} else {
			sums = store.Sums{}
		}
		before, ok := found[key.Agent]
		if ok && before.Key.At.After(key.At) {
			key.At = before.Key.At
		}
		key.Status = ""
		found[key.Agent] = store.Summary{Key: key, Sums: before.Sums.Plus(sums)}
	}
	for key, runs := range ended {
		if runs.Runs > 0 {
			out.Summaries = append(out.Summaries, store.Summary{Key: key, Sums: runs})
		}
	}
	out.Summaries = slices.AppendSeq(out.Summaries, maps.Values(found))
	store.SortSummaries(out.Summaries)
	return out
}

func (r reader) countFailures(q store.CountQuery) (counts []store.FailureCount) {
	var failed []*mailroom.Run
	for _, run := range r.selectRuns(store.RunQuery{Statuses: []mailroom.Status{mailroom.StatusFailed}}) { // newest first
		if t, _ := r.threads.get(run.Thread); run.ErrorGroup != "" && (q.Owner == nil || *q.Owner == t.Owner) &&
			(q.Agent == "" || q.Agent == run.Agent) {
			failed = append(failed, run)
		}
	}
	place := map[[2]string]int{}
	for _, run := range first(failed, q.Most) {
		of := [2]string{run.ErrorGroup, run.Agent}
		at, ok := place[of]
		if !ok {
			at = len(counts)
			place[of] = at
			counts = append(counts, store.FailureCount{
				Group: run.ErrorGroup, Agent: run.Agent, First: run.FinishedAt, Last: run.FinishedAt, Newest: run.ID, Key: run.Key,
			})
		}
		c := &counts[at]
		c.Runs++
		if run.FinishedAt.Before(c.First) {
			c.First = run.FinishedAt
		}
		if run.FinishedAt.After(c.Last) {
			c.Last = run.FinishedAt
		}
	}
	return counts
}

// selectRuns returns all matching rows in order, without copying them.
func (r reader) selectRuns(q store.RunQuery) []*mailroom.Run {
	var found []*mailroom.Run
	if q.Set == store.RunsNext {
		for _, t := range r.threads.all() {
			if slices.Contains(q.Threads, t.Key) {
				found = append(found, first(r.selectRuns(store.RunQuery{Thread: t.ID, Set: store.RunsQueued}), 1)...)
			}
		}
		return found
	}
	some := q.Owner != "" || len(q.Threads) > 0 // not of all threads
	consider := func(run *mailroom.Run) {
		if !matches(run, q) {
			return
		}
		if some { // to find the thread of each run would take most of the time
			if t, _ := r.threads.get(run.Thread); !isWithin(t, q.Owner, q.Threads) {
				return
			}
		}
		found = append(found, run)
	}
	switch {
	case len(q.IDs) > 0:
		for _, run := range r.runs.some(q.IDs) {
			consider(run)
		}
	case q.Thread != "":
		ids, _ := r.runsOf.get(q.Thread)
		for _, id := range ids {
			run, _ := r.runs.get(id)
			consider(run)
		}
	default:
		for _, run := range r.runs.all() {
			consider(run)
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Run) int {
		if !q.Overdue.IsZero() {
			return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.Key, b.Key))
		}
		if q.Prefix != "" {
			return cmp.Compare(a.ID, b.ID)
		}
		switch q.Set {
		case store.RunsQueued:
			return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Place, b.Place),
				cmp.Compare(a.Key, b.Key))
		case store.RunsScheduled:
			return cmp.Or(a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.Place, b.Place),
				cmp.Compare(a.Key, b.Key))
		}
		if q.Oldest {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Compare(b.Key, a.Key)
	})
	return found
}

// isWithin reports whether a query with this owner and these keys selects the thread t: the owner's threads and the
// threads with these keys, or all threads if both are empty.
func isWithin(t *mailroom.Thread, owner string, keys []int64) bool {
	return owner == "" && len(keys) == 0 || owner != "" && t.Owner == owner || slices.Contains(keys, t.Key)
}

func matches(run *mailroom.Run, q store.RunQuery) bool {
	switch {
	case q.Thread != "" && run.Thread != q.Thread,
		q.Agent != "" && run.Agent != q.Agent,
		q.Parent != "" && run.Parent != q.Parent,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, run.Status),
		!q.Overdue.IsZero() && !run.HasPassed(q.Overdue),
		q.Group != "" && (run.Status != mailroom.StatusFailed || run.ErrorGroup != q.Group),
		!strings.HasPrefix(run.ID, q.Prefix) || run.ID <= q.After,
		q.From != 0 && q.Oldest && run.Key <= q.From,
		q.From != 0 && !q.Oldest && run.Key >= q.From:
		return false
	}
	switch q.Set {
	case store.RunsQueued:
		return run.NeverStarted() && !run.Scheduled
	case store.RunsScheduled:
		return run.NeverStarted() && run.Scheduled
	}
	return true
}

func (r reader) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if len(q.At) > 0 {
		return q.EachAt(r)
	}
	switch {
	case q.All != nil:
		return r.allEntries(q)
	case q.Search != nil:
		return nil, r.search(q.Search)
	}
	log, _ := r.logs.get(q.Thread)
	start, _ := slices.BinarySearchFunc(log, q.After+1, func(e mailroom.Entry, seq int64) int {
		return cmp.Compare(e.Seq, seq)
	})
	var found []mailroom.Entry
	for _, e := range log[start:] {
		switch {
		case q.Before != 0 && e.Seq >= q.Before:
		case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind):
		case q.Run != "" && e.Run != q.Run:
		default:
			found = append(found, e)
		}
	}
	if q.Backward {
		slices.Reverse(found)
	}
	found = first(found, q.Limit)
	if kept, cut := entry.First(found, q.Bytes); q.Bytes > 0 && cut {
		n := len(kept)
		if len(kept[0].Raw) <= q.Bytes {
			n++ // the entry that exceeds it
		}
		found = found[:n]
	}
	for i, e := range found {
		var err error
		if found[i], err = copyEntry(e); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// allEntries answers a query whose field All is set.
func (r reader) allEntries(q store.EntryQuery) ([]mailroom.Entry, error) {
	all := q.All
	all.Order, all.Removed, all.End, all.Positions = r.order, r.removed, store.StartOf(r.lastCommit+1), nil
	if all.None || all.After.Compare(all.End) >= 0 {
		return nil, nil
	}
	type placed struct {
		at    store.Position
		entry mailroom.Entry
	}
	var after []placed
	for _, t := range r.threads.all() {
		log, _ := r.logs.get(t.ID)
		commits, _ := r.commits.get(t.ID)
		from, _ := slices.BinarySearch(commits, all.After.Commit)
		for i := from; i < len(log); i++ {
			if at := (store.Position{Commit: commits[i], Thread: t.Key, Seq: log[i].Seq}); at.Compare(all.After) > 0 {
				after = append(after, placed{at, log[i]})
			}
		}
	}
	slices.SortFunc(after, func(a, b placed) int { return a.at.Compare(b.at) })
	var found []mailroom.Entry
	rows, bytes := 0, 0
	more := func(size int) bool {
		rows, bytes = rows+1, bytes+size
		return (q.Limit <= 0 || rows < q.Limit) && (q.Bytes <= 0 || bytes <= q.Bytes)
	}
	for _, p := range after {
		e, err := copyEntry(p.entry)
		if err != nil {
			return nil, err
		}
		var ok bool
		if found, ok = all.Add(found, []mailroom.Entry{e}, p.at.Commit, p.at.Thread, more); !ok {
			break
		}
	}
	return found, nil
}

func (r reader) Tickets(q store.TicketQuery) ([]*mailroom.Ticket, error) {
	var found []*mailroom.Ticket
	rows := r.tickets.all()
	if len(q.IDs) > 0 {
		rows = r.tickets.some(q.IDs)
	} else if len(q.Runs) > 0 {
		var ids []string
		for _, list := range r.asked.some(q.Runs) {
			ids = append(ids, list...)
		}
		rows = r.tickets.some(ids)
	}
	for _, k := range rows {
		of, _ := r.threads.get(k.Thread)
		switch {
		case !isWithin(of, q.Owner, q.Threads):
		case len(q.Runs) > 0 && !slices.Contains(q.Runs, k.Run):
		case q.Thread != "" && k.Thread != q.Thread:
		case len(q.States) > 0 && !slices.Contains(q.States, k.State):
		case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, k.Kind):
		case !strings.HasPrefix(k.ID, q.Prefix) || k.ID <= q.After:
		case q.From != 0 && q.Oldest && k.Key <= q.From:
		case q.From != 0 && !q.Oldest && k.Key >= q.From:
		default:
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Ticket) int {
		if q.Prefix != "" {
			return cmp.Compare(a.ID, b.ID)
		}
		if q.Oldest {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Compare(b.Key, a.Key)
	})
	found, err := within(first(found, q.Limit), q.Bytes)
	for i, k := range found {
		found[i] = copyTicket(k)
	}
	return found, err
}

func (r reader) Tokens(names ...string) ([]*auth.Token, error) {
	var found []*auth.Token
	rows := r.tokens.all()
	if len(names) > 0 {
		rows = r.tokens.some(names)
	}
	for _, t := range rows {
		found = append(found, copyToken(t))
	}
	slices.SortFunc(found, func(a, b *auth.Token) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func (r reader) Agents() (rows store.AgentRows, err error) {
	var found []store.Definition
	for _, d := range r.kept.all() {
		d.Body = bytes.Clone(d.Body)
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b store.Definition) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Version, b.Version))
	})
	for _, p := range r.pauses.all() {
		rows.Pauses = append(rows.Pauses, p)
	}
	slices.SortFunc(rows.Pauses, func(a, b store.Pause) int { return strings.Compare(a.Agent, b.Agent) })
	rows.Definitions = found
	return rows, nil
}

func (r reader) Reservations(q store.ReservationQuery) ([]store.Reservation, error) {
	var found []store.Reservation
	for _, row := range r.reserved.all() {
		if (q.ID == "" || row.ID == q.ID) && (q.Thread == "" || row.Thread == q.Thread) {
			found = append(found, row)
		}
	}
	slices.SortFunc(found, func(a, b store.Reservation) int {
		return cmp.Or(strings.Compare(a.Thread, b.Thread), cmp.Compare(a.Fence, b.Fence), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

func (r reader) Cursors(q store.CursorQuery) ([]store.Cursor, error) {
	var found []store.Cursor
	for _, c := range r.cursors.all() {
		if q.Channel != "" && c.Channel != q.Channel || len(q.Identities) > 0 && !slices.Contains(q.Identities, c.Identity) {
			continue
		}
		if cmp.Or(strings.Compare(c.Channel, q.After.Channel), strings.Compare(c.Identity, q.After.Identity)) <= 0 &&
			q.After != (store.CursorRef{}) {
			continue
		}
		c.Position = bytes.Clone(c.Position)
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b store.Cursor) int {
		return cmp.Or(strings.Compare(a.Channel, b.Channel), strings.Compare(a.Identity, b.Identity))
	})
	return first(found, q.Limit), nil
}

func (r reader) Keys(q store.KeyQuery) ([]store.SubmitKey, error) {
	if q.Blobs != nil {
		r.readBlobs(q.Thread, q.Blobs)
		return nil, nil
	}
	if q.All {
		return r.allKeys(q), nil
	}
	var found []store.SubmitKey
	for _, key := range q.Keys {
		if k, ok := r.keys.get(keyID{q.Thread, key}); ok {
			found = append(found, copyKey(k))
		}
	}
	return found, nil
}

func (r reader) allKeys(q store.KeyQuery) []store.SubmitKey {
	var found []store.SubmitKey
	for id, k := range r.keys.all() {
		if id.thread == q.Thread && id.key > q.After {
			found = append(found, copyKey(k))
		}
	}
	slices.SortFunc(found, func(a, b store.SubmitKey) int { return strings.Compare(a.Key, b.Key) })
	return first(found, q.Limit)
}

func (r reader) Partials(runs ...string) ([]store.Partial, error) {
	var found []store.Partial
	for _, pieces := range r.partials.some(runs) {
		found = append(found, pieces...)
	}
	return found, nil
}

func (r reader) Workers(ids ...string) ([]*store.Worker, error) {
	rows := r.workers.all()
	if len(ids) > 0 {
		rows = r.workers.some(ids)
	}
	var found []*store.Worker
	for _, w := range rows {
		found = append(found, copyWorker(w))
	}
	slices.SortFunc(found, func(a, b *store.Worker) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

// dueEach returns one thread with a due time for each agent that has any.
func (r reader) dueEach() []*mailroom.Thread {
	one := map[string]*mailroom.Thread{}
	for _, t := range r.threads.all() {
		if strings.HasPrefix(t.Due.Agent, store.GatePrefix) {
			continue
		}
		if old := one[t.Due.Agent]; !t.Due.At.IsZero() && (old == nil || t.Key < old.Key) {
			one[t.Due.Agent] = t
		}
	}
	var found []*mailroom.Thread
	for _, agent := range slices.Sorted(maps.Keys(one)) {
		found = append(found, copyThread(one[agent]))
	}
	return found
}

// within cuts list after the element that exceeds bytes, the size of the elements' JSON; 0 is no limit.
func within[T any](list []T, bytes int) ([]T, error) {
	if bytes <= 0 {
		return list, nil
	}
	sum := 0
	for i, row := range list {
		raw, err := json.Marshal(row)
		if err != nil {
			return nil, err
		}
		if sum += len(raw); sum > bytes {
			return list[:i+1], nil
		}
	}
	return list, nil
}

// first returns the first limit elements of list, or all if limit is 0.
func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

func (r reader) readMeters(q *store.MeterQuery) (found []store.Meter) {
	for key, m := range r.meters.all() {
		named := len(q.Keys) == 0 || slices.Contains(q.Keys, key)
		if named && strings.HasPrefix(key, q.Prefix) && key > q.After {
			found = append(found, m)
		}
	}
	store.SortMeters(found)
	return first(found, q.Limit)
}
