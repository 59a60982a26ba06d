package ledger_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// TestRandomHistories runs random operations on ledgers over memory, SQLite and PostgreSQL. Their results
// and rows must be the same. After every step, the invariants of storetest.Check and of the model must
// hold, and no refused operation may have changed anything. At the end, everything acknowledged is stored, and all runs
// can be completed. A failure prints the flags that repeat it.
//
// For a long round: go test ./ledger -run Histories -rapid.checks 2000
// -rapid.steps 100 (how many histories, and how many operations of each).
func TestRandomHistories(t *testing.T) {
	rounds(t, 6)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) { play(rt, twinOf(rt, 1, onMemory(), onFile(dir), onPostgres(t))) })
}

// TestRandomHistoriesThroughThreeLedgers uses three ledgers with separate handles on the same rows, and
// any of them for each operation.
func TestRandomHistoriesThroughThreeLedgers(t *testing.T) {
	rounds(t, 3)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) { play(rt, twinOf(rt, 3, onMemory(), onFile(dir), onPostgres(t))) })
}

func twinOf(t *rapid.T, doors int, sides ...*side) *twin {
	w, err := newTwin(doors, sides...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// play runs one history.
func play(t *rapid.T, w *twin) coverage {
	doors := len(w.sides[0].doors)
	defer func() {
		if err := w.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	m := newModel(w)
	m.compare(t, "open")
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			m.check(t)
			m.handle = number(t, 0, doors-1, "ledger")
		},
		"step": m.step,
	})
	m.outcomes()
	m.checkMessages(t)
	m.drain(t)
	m.checkMessages(t)
	return w.coverage
}

// step runs one operation, drawn from those that are possible.
func (m *model) step(t *rapid.T) {
	claimed := func() bool { return len(m.liveClaims()) > 0 }
	lost := func() bool { return len(m.liveClaims()) < len(m.claims) }
	runs := func() bool { return len(m.after.Runs) > 0 }
	asked := func() bool { return len(m.after.Tickets) > 0 }
	heard := func() bool { return len(m.messages) > 0 }
	working := func() bool { return len(m.workers) > 0 }
	var can []func(*rapid.T)
	for _, a := range []struct {
		weight int
		do     func(*rapid.T)
		when   func() bool
	}{
		{12, m.submit, nil}, {12, m.claim, nil}, {2, m.advance, nil}, {2, m.sweep, nil}, {1, m.crash, nil},
		{1, m.orphans, nil}, {1, m.reopen, nil}, {1, m.versions, nil}, {2, m.interrupt, nil},
		{1, m.account, nil}, {2, m.patch, nil}, {2, m.deliver, nil}, {1, m.delete, nil}, {2, m.purge, nil},
		{6, m.append, claimed}, {3, m.flush, claimed}, {4, m.steered, claimed}, {6, m.settle, claimed},
		{4, m.effect, claimed}, {6, m.ask, claimed}, {6, m.park, claimed},
		{1, m.lateWrite, lost}, {2, m.cancel, runs}, {1, m.cancelTree, runs}, {4, m.retry, runs},
		{3, m.edit, heard}, {3, m.retract, heard}, {6, m.decide, asked}, {4, m.submitDecisions, asked},
		{3, m.renew, working}, {1, m.leave, working}, {8, m.side, nil},
		{3, m.giveWay, claimed}, {4, m.upload, claimed}, {6, m.keep, claimed}, {1, m.dropUpload, claimed},
	} {
		for range a.weight {
			if a.when == nil || a.when() {
				can = append(can, a.do)
			}
		}
	}
	one(t, can, "operation")(t)
}

// rounds makes rapid.Check run n rounds, unless its flags are set.
func rounds(t *testing.T, n int) {
	t.Helper()
	if slices.ContainsFunc(os.Args, func(arg string) bool {
		return strings.HasPrefix(strings.TrimLeft(arg, "-"), "rapid.")
	}) {
		return
	}
	setFlag(t, "rapid.checks", fmt.Sprint(n))
}

// setFlag sets a flag until the end of the test.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	was := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, was) }) // restores a valid value
}

// model is the expected state of a history.
type model struct {
	*twin
	*journal
	budgets  *budgets
	n        int // counter for names
	workers  map[string]*worker
	claims   []mailroom.Claim // all claims so far
	keys     map[string]keyed // by "thread key"
	attempts map[string]int   // last claimed attempt by run
	steps    map[mailroom.Claim]thread.StepCommit
	tokens   map[string]auth.Token    // valid ones, by name
	handed   map[mailroom.Claim]int64 // seq of the last steered message handed over
	// keyStarts are the times of starts under the rate of a key, by its gate.
	keyStarts map[string][]time.Time
}

type keyed struct {
	in  thread.Submit
	out store.Submitted
}

// worker is a registered worker with the claims that it knows.
type worker struct {
	node  string
	round int64 // the last one whose response it has
	asked int64
	held  []mailroom.Claim
}

func newModel(w *twin) *model {
	return &model{
		twin: w, journal: newJournal(), workers: map[string]*worker{}, keys: map[string]keyed{}, attempts: map[string]int{},
		steps: map[mailroom.Claim]thread.StepCommit{}, handed: map[mailroom.Claim]int64{}, budgets: newBudgets(),
		tokens: map[string]auth.Token{}, keyStarts: map[string][]time.Time{},
	}
}

func (m *model) name(prefix string) string {
	m.n++
	return fmt.Sprint(prefix, m.n)
}

func drawThread(t *rapid.T, of string) string { return one(t, []string{"a", "b", "c"}, of) }

func chance(t *rapid.T, percent int, of string) bool { return number(t, 1, 100, of) <= percent }

// number draws an integer. Unlike rapid's generators, which prefer small numbers and the beginning of a
// list, number and one draw uniformly.
func number(t *rapid.T, least, most int, of string) int {
	if least == most {
		return least
	}
	return rapid.Custom(func(t *rapid.T) int {
		n, bits := 0, bits.Len(uint(most-least))+4
		for range bits {
			n <<= 1
			if rapid.Bool().Draw(t, "bit") {
				n++
			}
		}
		return least + n*(most-least+1)>>bits
	}).Draw(t, of)
}

func one[T any](t *rapid.T, list []T, of string) T { return list[number(t, 0, len(list)-1, of)] }

// pick draws an element of the list, or skips the action if the list is empty.
func pick[T any](t *rapid.T, list []T, of string) T {
	if len(list) == 0 {
		t.Skip("no ", of)
	}
	return one(t, list, of)
}

func (m *model) runs() []string { return slices.Sorted(maps.Keys(m.after.Runs)) }

// liveClaims returns the claims that are still valid.
func (m *model) liveClaims() []mailroom.Claim {
	return slices.DeleteFunc(slices.Clone(m.claims), func(c mailroom.Claim) bool { return !m.holds(c) })
}

// labelOf returns the label of a ledger of histories. Each has another one, as if the setting had changed.
func labelOf(door int) string { return []string{"customer", "region"}[door%2] }

// labelValues returns values of labels. Some are not counted, and some are cut.
func labelValues() []string {
	return []string{"acme", "b=c", "", "<b>\u202e", strings.Repeat("é", 70)}
}

func (m *model) submit(t *rapid.T) {
	in := thread.Submit{
		Thread: drawThread(t, "thread"), Run: m.name("r"),
		Sender: one(t, []string{"ann", "ann", "bob"}, "sender"),
		Mode: one(t, []mailroom.Mode{
			"", mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeSteer,
			mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeReject,
		}, "mode"),
		MaxAttempts: number(t, 0, 3, "attempts"),
	}
	if chance(t, 20, "deadline") {
		in.Timeout = time.Duration(number(t, 1, 40, "timeout")) * time.Second
	}
	if chance(t, 30, "bounded crashes") {
		n := number(t, 0, mailroom.MaxCrashes, "crashes")
		in.MaxCrashes = &n
	}
	if row := m.after.Threads[in.Thread]; row != nil && row.Worker != "" && chance(t, 30, "steer") {
		in.Mode = mailroom.ModeSteer
	}
	in.Owner = m.owner(t, in.Thread)
	in.By = auth.RunToken(in.Owner)
	in.Origin = mailroom.Origin{Via: "user", Sender: in.Sender}
	for range one(t, []int{1, 1, 1, 3}, "messages") {
		in.Messages = append(in.Messages, thread.NewMessage{Parts: mailroom.Text(m.name("text "))})
	}
	if chance(t, 20, "agent asked for") {
		in.Agent = one(t, []string{"echo", "codex", "ghost"}, "agent")
	}
	if chance(t, 30, "urgent or not") {
		p := one(t, []int{0, 100, 255}, "priority")
		in.Priority = &p
	}
	if chance(t, 25, "delayed") {
		in.NotBefore = m.clock.read().Add(time.Duration(number(t, -1, 20, "seconds")) * time.Second)
	}
	if in.NotBefore.IsZero() && in.Timeout == 0 && in.Mode != mailroom.ModeLatest && in.Mode != mailroom.ModeReject &&
		chance(t, 40, "join") {
		in.Join, in.Origin.Via = time.Duration(number(t, 1, 10, "join seconds"))*time.Second, "channel:tg"
	}
	if values := labelValues(); m.n%(2*len(values)) < len(values) { // no draw, which would change all histories
		in.Metadata = map[string]string{labelOf(m.n / 3): values[m.n%len(values)]}
	}
	if m.limited {
		in.LimitKey = []string{"k", "k", "", "k", "l"}[m.n%5] // no draw, as above
	}
	if chance(t, 15, "child") {
		in.Parent = "elsewhere"
	}
	if in.NotBefore.IsZero() && m.n%2 == 0 { // no draw, as above
		in.Budget = m.drawBudget()
	}
	if chance(t, 10, "options") {
		in.Options = json.RawMessage(`{"depth": 1.50}`)
	}
	if in.Mode == mailroom.ModeSteer && chance(t, 30, "guarded") {
		in.ExpectRun = one(t, append(m.runs(), "unknown"), "expected")
	}
	if chance(t, 30, "keyed") {
		in.Key = one(t, keyNames(), "key")
		if chance(t, 20, "blank") {
			in.Thread = ""
		}
	}
	if k, ok := m.keys[scope(in)]; ok && in.Key != "" && chance(t, 70, "a repeat") {
		run := in.Run
		in = k.in
		in.Run = run
	}
	if chance(t, 2, "nothing to say") {
		in.Messages = nil
	}
	out, err := onBoth(t, m.twin, "submit", func(l *ledger.Ledger) (store.Submitted, error) { return l.Submit(m.ctx, in) })
	if err == nil {
		m.coverage["submit "+string(out.Disposition)]++
		m.checkSubmitted(t, in, out)
	}
}

// scope returns a submit key with its scope: the thread, or the owner if the submit creates one.
func scope(in thread.Submit) string {
	if in.Thread == "" {
		return "of " + in.Owner + " " + in.Key
	}
	return in.Thread + " " + in.Key
}

// checkSubmitted checks that an acknowledged submit is in the log, and that its key returns the first
// result until the run is purged.
func (m *model) checkSubmitted(t *rapid.T, in thread.Submit, out store.Submitted) {
	id := scope(in)
	if first, ok := m.keys[id]; ok && in.Key != "" {
		_, known := m.before.Keys[out.Thread+" "+in.Key]
		if !known && first.out.Seq >= m.after.Threads[out.Thread].FirstSeq {
			t.Fatalf("key %q of %+v was forgotten", in.Key, first.out)
		}
		if known {
			if out.Message != first.out.Message || out.Run != first.out.Run || out.Disposition != store.DispositionDuplicate {
				t.Fatalf("submit with key %q returned %+v, the first time %+v", in.Key, out, first.out)
			}
			return
		}
	}
	m.keys[id] = keyed{in, out}
	m.recordSubmit(t, m.twin, in, out)
}

func (m *model) claim(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(m.workers))
	if len(ids) < 3 {
		ids = append(ids, "")
	}
	id := one(t, ids, "worker")
	if id == "" {
		id = m.register(t, rapid.Bool().Draw(t, "local"))
	}
	m.claimAs(t, id, rapid.Bool().Draw(t, "alone"))
}

func (m *model) register(t *rapid.T, local bool) (id string) {
	id = m.name("w")
	m.workers[id] = &worker{node: []string{"", "north", "south"}[m.n%3]} // no draw, as in reopen
	w := store.Worker{ID: id, Agents: []string{"echo", "codex"}, Local: local, Node: m.workers[id].node}
	if _, err := onBoth(t, m.twin, "register", func(l *ledger.Ledger) (time.Time, error) {
		return l.Workers().Register(m.ctx, w)
	}); err != nil {
		t.Fatalf("register: %v", err)
	}
	return id
}

func (m *model) claimAs(t *rapid.T, id string, alone bool) {
	w := m.workers[id]
	w.asked++
	n := number(t, 1, 3, "slots")
	ask := thread.ClaimRequest{
		Worker: id, Round: w.asked, Slots: n, LastAttempt: alone,
		Agents: map[string]int{"echo": n, "codex": number(t, 0, n, "of codex")}, Node: w.node,
	}
	before, said := m.after, m.waitsFor(t)
	work, err := onBoth(t, m.twin, "claim", func(l *ledger.Ledger) ([]thread.ClaimedRun, error) {
		return l.Workers().Claim(m.ctx, ask)
	})
	if err != nil {
		delete(m.workers, id)
		return
	}
	m.checkStartable(t, said, ask, before)
	lost := chance(t, 10, "answer lost")
	for _, one := range work {
		m.checkStarted(t, before, one, w.node)
		m.checkKeyRate(t, one)
		m.claims = append(m.claims, one.Claim)
		if !lost {
			w.held = append(w.held, one.Claim)
		}
	}
	if !lost {
		w.round = w.asked
	}
}

func (m *model) append(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	if a, ok := m.steps[c]; ok && chance(t, 15, "a repeat") && m.run(c.Run).LastStep.Step == a.Number {
		m.write(t, "append again", a)
		return
	}
	if m.limited && m.n%4 != 3 {
		m.setThreadBudget(t, c.Thread)
	}
	a := thread.StepCommit{Claim: c, Number: m.run(c.Run).Step + 1, Covers: m.handed[c]}
	if chance(t, 5, "a hole") {
		a.Number++
	}
	if chance(t, 50, "named") {
		a.Step.Name = m.name("step ")
	}
	if chance(t, 50, "said") {
		a.Message = &thread.PartialText{ID: m.name(c.Run + ".1-"), Text: m.name("said ")}
	}
	if chance(t, 30, "checkpoint") {
		a.Step.Checkpoint = json.RawMessage(fmt.Sprintf(`{"at": %d}`, m.n))
	}
	a.Step.NoProgress = chance(t, 20, "record")
	// Not drawn: the histories of a seed stay as they are.
	a.Step.Extend = []time.Duration{0, time.Second, 2 * time.Hour, 100 * time.Hour}[m.n%4]
	a.Step.Usage = m.drawUsage(c)
	if chance(t, 20, "noted") {
		kind := one(t, []string{entry.KindToolStarted, entry.KindToolDone, "x.note"}, "kind")
		a.Step.Entries = []mailroom.AgentEntry{{Kind: kind, Body: json.RawMessage(`{"call":"c1"}`)}}
	}
	if chance(t, 20, "state") {
		if w := m.workers[m.after.Threads[c.Thread].Worker]; w != nil && isSticky(m.run(c.Run).Agent) {
			a.Node = w.node
		}
		a.Step.State = json.RawMessage(fmt.Sprintf(`{"n":%d}`, m.n))
	}
	for i := range one(t, []int{0, 0, 1, 2}, "sends") {
		send := mailroom.Send{Name: fmt.Sprint("s", i, number(t, 1, 2, "send")), Parts: mailroom.Text("do")}
		if !chance(t, 20, "to a new thread") {
			send.Thread = drawThread(t, "to")
		}
		if chance(t, 30, "send as a submit") {
			send.Mode = one(t, []mailroom.Mode{mailroom.ModeSteer, mailroom.ModeCollect, mailroom.ModeLatest,
				mailroom.ModeInterrupt, mailroom.ModeReject}, "mode")
		}
		if chance(t, 15, "later") && (send.Mode == "" || send.Mode == mailroom.ModeCollect) {
			send.Delay = one(t, []time.Duration{time.Millisecond, time.Second, time.Hour}, "delay")
		}
		if m.n%4 == 0 {
			send.Budget = m.drawBudget()
			send.Budget.Until = time.Time{}
		}
		if chance(t, 15, "urgent") {
			send.Priority = new(number(t, 0, 255, "priority"))
		}
		a.Step.Sends = append(a.Step.Sends, send)
	}
	if chance(t, 40, "blobs") {
		a.Blobs = m.drawBlobs(t, c)
	}
	m.write(t, "append", a)
}

func (m *model) write(t *rapid.T, name string, a thread.StepCommit) {
	was, number := m.run(a.Run), m.run(a.Run).Step
	out, err := onBoth(t, m.twin, name,
		func(l *ledger.Ledger) (thread.Appended, error) { return l.Workers().Append(m.ctx, a) })
	if err == nil {
		m.steps[a.Claim] = a
		m.recordBlobs(a)
		m.checkTime(t, was, a, out.Left, a.Number == number)
	}
}

// checkTime checks what a step does to the time of its claim, which it may only spend.
func (m *model) checkTime(t *rapid.T, was *mailroom.Run, a thread.StepCommit, left time.Duration, repeated bool) {
	is, now := m.run(a.Run), m.after.Threads[a.Thread].UpdatedAt
	if is.Stop != was.Stop {
		return // its budget is spent: its grace begins
	}
	moved := is.ClaimEnds.Sub(was.ClaimEnds)
	asks := a.Step.Extend > 0 && was.Stop == "" && !repeated
	switch until := is.ClaimEnds.Add(-is.StopGrace); {
	case moved < 0 || moved != was.ClaimSpare-is.ClaimSpare || moved > 0 && !asks:
		t.Fatalf("a step for %v moved the end of the claim by %v, with %v to spare and then %v", a.Step.Extend, moved,
			was.ClaimSpare, is.ClaimSpare)
	case asks && is.ClaimSpare > 0 && until.Before(now.Add(a.Step.Extend)):
		t.Fatalf("a step for %v at %s left time until %s, with %v to spare", a.Step.Extend, now, until, is.ClaimSpare)
	case (left > 0) != (a.Step.Extend > 0 && was.Stop == ""):
		t.Fatalf("a step for %v of a run with stop %q has %v left", a.Step.Extend, was.Stop, left)
	}
}

func (m *model) flush(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	p := store.Partial{Message: c.Run + ".1-0", Text: m.name("piece ")}
	for _, old := range m.after.Partials[c.Run] {
		p.Message, p.Offset = old.Message, p.Offset+len(old.Text)
	}
	m.do(t, "flush", func(l *ledger.Ledger) error { return l.Workers().Flush(m.ctx, c, p) })
}

func (m *model) steered(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	if with := slices.DeleteFunc(m.liveClaims(), func(c mailroom.Claim) bool {
		return len(m.run(c.Run).Steers) == 0
	}); len(with) > 0 {
		c = one(t, with, "steered")
	}
	all, _ := onBoth(t, m.twin, "steered", func(l *ledger.Ledger) ([]mailroom.Input, error) {
		return l.Workers().MarkSteersRead(m.ctx, c)
	})
	for _, in := range all {
		m.handed[c] = max(m.handed[c], in.Seq)
	}
}

func (m *model) settle(t *rapid.T) {
	c := pick(t, m.liveClaims(), "claim")
	s := ending(t, c)
	s.Number = m.run(c.Run).Step + 1
	if chance(t, 50, "said") {
		s.Message = &thread.PartialText{ID: m.name(c.Run + ".1-"), Text: m.name("said ")}
	}
	again := chance(t, 20, "twice")
	settle := func(name string) *mailroom.Run {
		r, err := onBoth(t, m.twin, name, func(l *ledger.Ledger) (*mailroom.Run, error) {
			return l.Workers().Settle(m.ctx, s)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m.recordSettle(r)
		return r
	}
	settle("settle " + string(s.Outcome))
	if again {
		log := m.after.Logs[c.Thread]
		settle("settle again")
		if len(m.after.Logs[c.Thread]) != len(log) {
			t.Fatalf("a settle was written twice")
		}
	}
}

func ending(t *rapid.T, c mailroom.Claim) thread.Settle {
	s := thread.Settle{Claim: c, Outcome: thread.OutcomeFail, Jitter: 0.5, Forced: rapid.Bool().Draw(t, "forced")}
	class := one(t, []mailroom.Class{"", "", "release", mailroom.ClassTransient, mailroom.ClassTransient,
		mailroom.ClassUnavailable, mailroom.ClassPermanent}, "end")
	switch class {
	case "":
		s.Outcome = thread.OutcomeComplete
	case "release":
		s.Outcome, s.Entered = thread.OutcomeRelease, rapid.Bool().Draw(t, "entered")
	default:
		s.Failure = &mailroom.Failure{Class: class, Err: errors.New("no luck"),
			RetryAfter: time.Duration(number(t, 0, 5, "after")) * time.Second}
	}
	return s
}
