package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// journal records what the ledger has acknowledged, from its results only. It knows no rules: each
// object must exist until it was deleted, purged or retracted.
type journal struct {
	messages []*sentMessage               // in the order of the results
	decided  map[string]*mailroom.Ticket  // by id, as returned
	ended    map[string]mailroom.Status   // runs, as settled
	effects  map[string]entry.EffectEntry // by "run name", with a recorded result
	begun    map[string]entry.EffectEntry // by "run name", intended and not settled
	blobs    map[store.BlobRef]string     // digests
}

// sentMessage is an accepted message.
type sentMessage struct {
	thread, id string
	seq        int64
	text       string // as submitted or edited
	retracted  bool
}

func newJournal() *journal {
	return &journal{
		decided: map[string]*mailroom.Ticket{}, ended: map[string]mailroom.Status{},
		effects: map[string]entry.EffectEntry{}, begun: map[string]entry.EffectEntry{}, blobs: map[store.BlobRef]string{},
	}
}

// recordSubmit records a submit. Its messages are the entries up to the returned seq.
func (j *journal) recordSubmit(t *rapid.T, w *twin, in thread.Submit, out store.Submitted) {
	for i, d := range in.Messages {
		s := &sentMessage{thread: out.Thread, seq: out.Seq - int64(len(in.Messages)-1-i), text: thread.JoinText(d.Parts)}
		found := w.messageAt(t, s.thread, s.seq)
		if s.id = found.ID; found.Text != s.text {
			t.Fatalf("submit returned seq %d, which is %+v in the log, want %q", out.Seq, found, s.text)
		}
		j.messages = append(j.messages, s)
	}
	if last := j.messages[len(j.messages)-1]; last.id != out.Message {
		t.Fatalf("submit returned message %s at %d, which is %s in the log", out.Message, out.Seq, last.id)
	}
}

// messageAt returns the message at seq of the log, which must not be purged.
func (w *twin) messageAt(t *rapid.T, thread string, seq int64) (found mailroom.Message) {
	log, first := w.after.Logs[thread], w.after.Threads[thread].FirstSeq
	if seq < first || seq-first >= int64(len(log)) {
		t.Fatalf("thread %s has no entry %d", thread, seq)
	}
	e, err := entry.Parse([]byte(log[seq-first]))
	if err == nil {
		err = e.Decode(&found)
	}
	if err != nil || e.Kind != entry.KindMessage {
		t.Fatalf("entry %d of thread %s is a %s, want a message, error %v", seq, thread, e.Kind, err)
	}
	return found
}

func (j *journal) recordSettle(r *mailroom.Run) {
	if r.Status.Finished() {
		j.ended[r.ID] = r.Status
	}
}

// recordRetry records the manual retry of a run.
func (j *journal) recordRetry(r *mailroom.Run, fresh bool) {
	delete(j.ended, r.ID)
	if !fresh {
		return
	}
	for id, k := range j.decided {
		if k.Run == r.ID {
			delete(j.decided, id)
		}
	}
	for _, name := range effectNames() {
		delete(j.effects, r.ID+" "+name)
		delete(j.begun, r.ID+" "+name)
	}
}

// dropRuns drops deleted and purged runs.
func (j *journal) dropRuns(gone func(run string) bool) {
	of := func(id string, _ entry.EffectEntry) bool { run, _, _ := strings.Cut(id, " "); return gone(run) }
	maps.DeleteFunc(j.effects, of)
	maps.DeleteFunc(j.begun, of)
	maps.DeleteFunc(j.ended, func(run string, _ mailroom.Status) bool { return gone(run) })
	maps.DeleteFunc(j.decided, func(_ string, k *mailroom.Ticket) bool { return gone(k.Run) })
}

// dropThread drops a deleted thread.
func (j *journal) dropThread(thread string) {
	j.messages = slices.DeleteFunc(j.messages, func(s *sentMessage) bool { return s.thread == thread })
}

// checkMessages checks that every accepted message is in its log once, in order and with its text, and
// that decisions, ends of runs and results of effects are as returned. Purged runs have no messages.
func (m *model) checkMessages(t *rapid.T) {
	t.Helper()
	last, logged := map[string]int64{}, map[string]map[string]int{}
	for _, s := range m.messages {
		row := m.after.Threads[s.thread]
		if row == nil {
			t.Fatalf("thread %s of message %s does not exist", s.thread, s.id)
		}
		if s.seq <= last[s.thread] {
			t.Fatalf("message %s of thread %s has seq %d, but an earlier one has %d", s.id, s.thread, s.seq, last[s.thread])
		}
		last[s.thread] = s.seq
		if s.seq >= row.FirstSeq {
			if logged[s.thread] == nil {
				logged[s.thread] = messagesOf(t, m.after.Logs[s.thread])
			}
			m.checkMessage(t, s, logged[s.thread][s.id])
		}
	}
	for id, k := range m.decided {
		if is := m.after.Tickets[id]; is != nil && is.State != mailroom.TicketVoid &&
			(is.State != mailroom.TicketDecided || is.Decision != k.Decision || string(is.Answer) != string(k.Answer)) {
			t.Fatalf("ticket %s was decided %s %s, and is now %s %s %s", id, k.Decision, k.Answer, is.State,
				is.Decision, is.Answer)
		}
	}
	for id, status := range m.ended {
		if r := m.after.Runs[id]; r != nil && r.Status != status {
			t.Fatalf("run %s was %s, and is now %s", id, status, r.Status)
		}
	}
}

// messagesOf returns how often each message occurs in a log.
func messagesOf(t *rapid.T, log []string) map[string]int {
	t.Helper()
	times := map[string]int{}
	for _, raw := range log {
		var e struct {
			Kind string
			Body struct{ ID string }
		}
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == entry.KindMessage {
			times[e.Body.ID]++
		}
	}
	return times
}

// checkMessage checks one message that was not purged and occurs so often in the log of its thread.
func (m *model) checkMessage(t *rapid.T, s *sentMessage, times int) {
	if found := m.messageAt(t, s.thread, s.seq); found.ID != s.id {
		t.Fatalf("message %s of thread %s is not at %d, which is %s", s.id, s.thread, s.seq, found.ID)
	}
	if times != 1 {
		t.Fatalf("message %s occurs %d times in the log of thread %s, want once", s.id, times, s.thread)
	}
	for _, side := range m.sides {
		is, err := side.doors[m.handle].Message(m.ctx, s.thread, s.id)
		if err != nil || is.Text != s.text || (is.State == mailroom.MessageRetracted) != s.retracted {
			t.Fatalf("%s has message %s as %q, %s, error %v; want %q, retracted: %v", side.name, s.id, is.Text, is.State, err,
				s.text, s.retracted)
		}
	}
}

func effectNames() []string { return []string{"e1", "e2"} }

// effect records the next entry of a named effect. A recorded result must not change.
func (m *model) effect(t *rapid.T) {
	c, name := pick(t, m.liveClaims(), "claim"), one(t, effectNames(), "effect")
	for _, live := range m.liveClaims() {
		if _, begun := m.begun[live.Run+" "+name]; begun {
			c = live
		}
	}
	id := c.Run + " " + name
	m.checkEffects(t, c.Run)
	if _, done := m.effects[id]; done {
		t.Skip("the effect has a result")
	}
	body, err := entry.NewEffect(c.Run, mailroom.Effect{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	kind := entry.KindEffectIntended
	if _, begun := m.begun[id]; begun {
		kind = one(t, []string{entry.KindEffectSettled, entry.KindEffectUnknown}, "kind")
		if kind == entry.KindEffectSettled {
			body.Result = json.RawMessage(fmt.Sprintf(`{"n":%d}`, m.n))
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	m.write(t, "effect", thread.StepCommit{
		Claim: c, Number: m.run(c.Run).Step + 1, Covers: m.handed[c],
		Step:    mailroom.Step{NoProgress: kind != entry.KindEffectSettled},
		Effects: []mailroom.AgentEntry{{Kind: kind, Body: raw}},
	})
	delete(m.begun, id)
	switch kind {
	case entry.KindEffectIntended:
		m.begun[id] = body
	case entry.KindEffectSettled:
		m.effects[id] = body
	}
}

// checkEffects checks the recorded results of a run's effects.
func (m *model) checkEffects(t *rapid.T, run string) {
	states, err := onBoth(t, m.twin, "effects", func(l *ledger.Ledger) (map[string]*entry.EffectState, error) {
		return l.Workers().Effects(m.ctx, m.run(run))
	})
	if err != nil {
		t.Fatalf("effects: %v", err)
	}
	for _, name := range effectNames() {
		want, done := m.effects[run+" "+name]
		if is := states[name]; done && (is == nil || is.Last != entry.KindEffectSettled ||
			string(is.Result) != string(want.Result)) {
			t.Fatalf("effect %s of run %s had result %s, and is now %+v", name, run, want.Result, is)
		}
	}
}

// drain checks that all work ends, given workers, decisions and time, and that no rows of unfinished
// work remain.
func (m *model) drain(t *rapid.T) {
	was := m.quick
	m.quick = true
	m.endThreadBudgets(t)
	for n := 0; len(m.unfinished()) > 0; n++ {
		if n > 20 {
			t.Fatalf("runs do not end: %v", m.unfinished())
		}
		for id, k := range m.after.Tickets {
			if k.State == mailroom.TicketOpen {
				m.answer(t, id)
			}
		}
		m.clock.move(25 * time.Hour)
		m.sweep(t)
		m.orphans(t)
		m.serveAll(t)
	}
	m.quick = was
	m.compare(t, "drain")
	for id, row := range m.after.Threads {
		if row.Current != "" || !row.Due.At.IsZero() || !row.HeldAt.IsZero() {
			t.Fatalf("thread %s has no work left, but its row is %+v", id, row)
		}
	}
	for _, k := range m.after.Tickets {
		if k.State == mailroom.TicketOpen {
			t.Fatalf("ticket %s of an ended run is open", k.ID)
		}
	}
	if len(m.after.Partials) > 0 {
		t.Fatalf("partials of ended runs remain: %v", m.after.Partials)
	}
}

func (m *model) unfinished() (runs []string) {
	for _, r := range m.after.Runs {
		if !r.Status.Finished() {
			runs = append(runs, fmt.Sprint(r.ID, " ", r.Status, " in ", r.Thread))
		}
	}
	return runs
}

// answer decides a ticket as its kind requires, if it can be decided.
func (m *model) answer(t *rapid.T, id string) {
	k := m.after.Tickets[id]
	d := thread.Decision{Ticket: id, By: "ann", Verdict: mailroom.VerdictApprove, Digest: k.Digest}
	switch k.Kind {
	case mailroom.TicketChildren, mailroom.TicketTimer:
		return
	}
	if k.State != mailroom.TicketOpen {
		return // the answer before it has ended the run
	}
	switch k.Kind {
	case mailroom.TicketApproval:
		if strings.HasPrefix(k.Name, thread.BudgetTicket) { // a raise would have to be asked for again, as time passes
			d.Verdict = mailroom.VerdictDeny
		}
	default:
		d.Verdict, d.Answer = mailroom.VerdictAnswer, json.RawMessage(`"yes"`)
	}
	if _, err := onBoth(t, m.twin, "last decision", func(l *ledger.Ledger) (*mailroom.Ticket, error) {
		return l.Decide(m.ctx, d)
	}); err != nil &&
		mailroom.CodeOf(err) != mailroom.CodeGone {
		t.Fatalf("decide %+v: %v", k, err)
	}
}

// serveAll claims and completes all due runs.
func (m *model) serveAll(t *rapid.T) {
	id := m.name("w")
	if _, err := onBoth(t, m.twin, "register", func(l *ledger.Ledger) (time.Time, error) {
		return l.Workers().Register(m.ctx, store.Worker{ID: id, Agents: []string{"echo", "codex"}})
	}); err != nil {
		t.Fatalf("register: %v", err)
	}
	for round, none := int64(1), 0; none < 2; round++ {
		before, node := m.after, []string{"north", "south"}[round%2]
		work, err := onBoth(t, m.twin, "last claim", func(l *ledger.Ledger) ([]thread.ClaimedRun, error) {
			return l.Workers().Claim(m.ctx, thread.ClaimRequest{
				Worker: id, Round: round, Slots: 10, LastAttempt: true, Agents: map[string]int{"echo": 10, "codex": 10}, Node: node,
			})
		})
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		if none++; len(work) > 0 {
			none = 0
		}
		for _, one := range work {
			m.checkStarted(t, before, one, node)
			m.checkKeyRate(t, one)
		}
		for _, one := range work { // later, because the end of one run may send to the thread of another
			m.finish(t, one.Claim)
		}
	}
}

func (m *model) finish(t *rapid.T, c mailroom.Claim) {
	s := thread.Settle{
		Claim: c, Number: m.run(c.Run).Step + 1, Outcome: thread.OutcomeComplete,
		Message: &thread.PartialText{ID: m.name(c.Run + ".1-"), Text: "done"},
	}
	r, err := onBoth(t, m.twin, "last settle", func(l *ledger.Ledger) (*mailroom.Run, error) {
		return l.Workers().Settle(m.ctx, s)
	})
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	m.recordSettle(r)
}
