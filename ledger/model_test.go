package ledger_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/ledger"
)

// TestRandomHistories gives random operations to a ledger over memory and one
// over SQLite. Their answers and their rows are the same, the invariants of
// storetest.Check hold after every step, and so do those of the model, which
// knows what came before. -rapid.checks and -rapid.steps make it longer; a
// failure says how to run it again.
func TestRandomHistories(t *testing.T) {
	rounds(t, 8)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		own, err := os.MkdirTemp(dir, "")
		if err != nil {
			rt.Fatal(err)
		}
		w, closeBoth, err := newTwin(own)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := closeBoth(); err != nil {
				t.Error(err)
			}
		}()
		m := newModel(w)
		m.look(rt, "open")
		rt.Repeat(map[string]func(*rapid.T){
			"":          func(t *rapid.T) { m.check(t) },
			"submit":    m.submit,
			"submit2":   m.submit,
			"submit3":   m.submit,
			"claim":     m.claim,
			"claim2":    m.claim,
			"claim3":    m.claim,
			"append":    m.append,
			"flush":     m.flush,
			"steered":   m.steered,
			"settle":    m.settle,
			"settle2":   m.settle,
			"late":      m.late,
			"cancel":    m.cancel,
			"interrupt": m.interrupt,
			"retry":     m.retry,
			"edit":      m.edit,
			"retract":   m.retract,
			"patch":     m.patch,
			"delete":    m.delete,
			"renew":     m.renew,
			"leave":     m.leave,
			"sweep":     m.sweep,
			"orphans":   m.orphans,
			"wait":      m.wait,
			"wait2":     m.wait,
			"ask":       m.ask,
			"ask2":      m.ask,
			"park":      m.park,
			"park2":     m.park,
			"decide":    m.decide,
			"decide2":   m.decide,
			"decisions": m.submitDecisions,
			"deliver":   m.deliver,
			"tree":      m.cancelTree,
		})
	})
}

// rounds makes rapid.Check do n rounds, unless its flags say otherwise.
func rounds(t *testing.T, n int) {
	t.Helper()
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(strings.TrimLeft(arg, "-"), "rapid.") }) {
		return
	}
	was := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", was) }) // it took the value before
}

// model is what the test remembers of a history.
type model struct {
	*twin
	n        int // makes names
	workers  map[string]*worker
	claims   []mailroom.Claim // all that were ever given
	messages []string         // "thread message"
	keys     map[string]keyed // "thread key"
	attempts map[string]int   // run to the last attempt that was claimed
	steps    map[mailroom.Claim]mailroom.Append
	handed   map[mailroom.Claim]int64 // seq of the last steered message handed over
}

type keyed struct {
	in  mailroom.Submit
	out mailroom.Submitted
}

// worker is one that was registered: what it thinks that it holds.
type worker struct {
	round int64 // the last one whose answer it has
	asked int64
	held  []mailroom.Claim
}

func newModel(w *twin) *model {
	return &model{
		twin: w, workers: map[string]*worker{}, keys: map[string]keyed{}, attempts: map[string]int{},
		steps: map[mailroom.Claim]mailroom.Append{}, handed: map[mailroom.Claim]int64{},
	}
}

func (m *model) name(prefix string) string {
	m.n++
	return fmt.Sprint(prefix, m.n)
}

func threads() *rapid.Generator[string] { return rapid.SampledFrom([]string{"a", "b", "c"}) }

func chance(t *rapid.T, percent int, of string) bool {
	return rapid.IntRange(1, 100).Draw(t, of) <= percent
}

// pick draws one of the list, or ends the action if it is empty.
func pick[T any](t *rapid.T, list []T, of string) T {
	if len(list) == 0 {
		t.Skip("no ", of)
	}
	return rapid.SampledFrom(list).Draw(t, of)
}

func (m *model) runs() []string { return slices.Sorted(maps.Keys(m.after.Runs)) }

// live are the claims that are still good, of all that were ever given.
func (m *model) live() []mailroom.Claim {
	return slices.DeleteFunc(slices.Clone(m.claims), func(c mailroom.Claim) bool { return !m.holds(c) })
}

func (m *model) submit(t *rapid.T) {
	in := mailroom.Submit{
		Thread: threads().Draw(t, "thread"), Run: m.name("r"), Owner: "ann",
		Sender: rapid.SampledFrom([]string{"ann", "ann", "bob"}).Draw(t, "sender"),
		Mode: rapid.SampledFrom([]mailroom.Mode{
			"", mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeSteer,
			mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeReject,
		}).Draw(t, "mode"),
		MaxAttempts: rapid.IntRange(0, 3).Draw(t, "attempts"),
	}
	in.Origin = mailroom.Origin{Via: "user", Sender: in.Sender}
	for range rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "messages") {
		in.Messages = append(in.Messages, mailroom.Draft{Parts: mailroom.Text(m.name("text "))})
	}
	if chance(t, 20, "agent asked for") {
		in.SetAgent, in.Agent = true, rapid.SampledFrom([]string{"echo", "codex", "ghost"}).Draw(t, "agent")
	}
	if chance(t, 30, "urgent or not") {
		p := rapid.SampledFrom([]int{0, 100, 255}).Draw(t, "priority")
		in.Priority = &p
	}
	if chance(t, 25, "delayed") {
		in.NotBefore = m.clock.read().Add(time.Duration(rapid.IntRange(-1, 20).Draw(t, "seconds")) * time.Second)
	}
	if chance(t, 15, "child") {
		in.Parent = "elsewhere"
	}
	if chance(t, 10, "options") {
		in.Options = json.RawMessage(`{"depth": 1.50}`)
	}
	if in.Mode == mailroom.ModeSteer && chance(t, 30, "guarded") {
		in.ExpectRun = rapid.SampledFrom(append(m.runs(), "nobody")).Draw(t, "expected")
	}
	if chance(t, 30, "keyed") {
		in.Key = rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "key")
	}
	if k, ok := m.keys[in.Thread+" "+in.Key]; ok && in.Key != "" && chance(t, 70, "a repeat") {
		in = k.in
	}
	out, err := twice(t, m.twin, "submit", func(l *ledger.Ledger) (mailroom.Submitted, error) { return l.Submit(m.ctx, in) })
	if err == nil {
		m.submitted(t, in, out)
	}
}

// submitted: an acknowledged submit is in the log, and a key answers as before.
func (m *model) submitted(t *rapid.T, in mailroom.Submit, out mailroom.Submitted) {
	var found mailroom.Message
	e, err := mailroom.ParseEntry([]byte(m.after.Logs[in.Thread][out.Seq-1]))
	if err == nil {
		err = e.Decode(&found)
	}
	if err != nil || found.ID != out.Message {
		t.Fatalf("submit answered with message %s at %d, which is %q, error %v", out.Message, out.Seq, found.ID, err)
	}
	id := in.Thread + " " + in.Key
	if first, ok := m.keys[id]; ok && in.Key != "" {
		if out.Message != first.out.Message || out.Run != first.out.Run || out.Disposition != mailroom.WasDuplicate {
			t.Fatalf("key %q answered with %+v, first with %+v", in.Key, out, first.out)
		}
		return
	}
	m.keys[id] = keyed{in, out}
	m.messages = append(m.messages, in.Thread+" "+out.Message)
}

func (m *model) claim(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(m.workers))
	if len(ids) < 3 {
		ids = append(ids, "")
	}
	id := rapid.SampledFrom(ids).Draw(t, "worker")
	if id == "" {
		id = m.name("w")
		m.workers[id] = &worker{}
		_, err := twice(t, m.twin, "register", func(l *ledger.Ledger) (time.Time, error) {
			return l.Register(m.ctx, mailroom.Worker{ID: id, Agents: []string{"echo", "codex"}})
		})
		if err != nil {
			t.Fatalf("register: %v", err)
		}
	}
	w := m.workers[id]
	w.asked++
	n := rapid.IntRange(1, 3).Draw(t, "slots")
	ask := ledger.ClaimRequest{
		Worker: id, Round: w.asked, Slots: n, Alone: rapid.Bool().Draw(t, "alone"),
		Agents: map[string]int{"echo": n, "codex": rapid.IntRange(0, n).Draw(t, "of codex")},
	}
	before := m.after
	work, err := twice(t, m.twin, "claim", func(l *ledger.Ledger) ([]ledger.Work, error) { return l.Claim(m.ctx, ask) })
	lost := err != nil || chance(t, 10, "answer lost")
	for _, one := range work {
		m.started(t, before, one)
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
	c := pick(t, m.live(), "claim")
	if a, ok := m.steps[c]; ok && chance(t, 15, "a repeat") && m.run(c.Run).LastStep.Step == a.Number {
		m.write(t, "append again", a)
		return
	}
	a := mailroom.Append{Claim: c, Number: m.run(c.Run).Step + 1, Covers: m.handed[c]}
	if chance(t, 5, "a hole") {
		a.Number++
	}
	if chance(t, 50, "named") {
		a.Step.Name = m.name("step ")
	}
	if chance(t, 50, "said") {
		a.Message = &mailroom.Said{ID: m.name(c.Run + ".1-"), Text: m.name("said ")}
	}
	if chance(t, 30, "checkpoint") {
		a.Step.Checkpoint = json.RawMessage(fmt.Sprintf(`{"at": %d}`, m.n))
	}
	a.Step.Record = chance(t, 20, "record")
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "sends") {
		send := mailroom.Send{Name: fmt.Sprint("s", i, rapid.IntRange(1, 2).Draw(t, "send")), Parts: mailroom.Text("do")}
		if !chance(t, 20, "to a new thread") {
			send.Thread = threads().Draw(t, "to")
		}
		a.Step.Sends = append(a.Step.Sends, send)
	}
	m.write(t, "append", a)
}

func (m *model) write(t *rapid.T, name string, a mailroom.Append) {
	_, err := twice(t, m.twin, name, func(l *ledger.Ledger) (int64, error) { return l.Append(m.ctx, a) })
	if err == nil {
		m.steps[a.Claim] = a
	}
}

func (m *model) flush(t *rapid.T) {
	c := pick(t, m.live(), "claim")
	p := mailroom.Partial{Message: c.Run + ".1-0", Text: m.name("piece ")}
	for _, old := range m.after.Partials[c.Run] {
		p.Message, p.Offset = old.Message, p.Offset+len(old.Text)
	}
	m.do(t, "flush", func(l *ledger.Ledger) error { return l.Flush(m.ctx, c, p) })
}

func (m *model) steered(t *rapid.T) {
	c := pick(t, m.live(), "claim")
	all, _ := twice(t, m.twin, "steered", func(l *ledger.Ledger) ([]mailroom.Input, error) { return l.Steered(m.ctx, c) })
	for _, in := range all {
		m.handed[c] = max(m.handed[c], in.Seq)
	}
}

func (m *model) settle(t *rapid.T) {
	c := pick(t, m.live(), "claim")
	s := ending(t, c)
	s.Number = m.run(c.Run).Step + 1
	if chance(t, 50, "said") {
		s.Message = &mailroom.Said{ID: m.name(c.Run + ".1-"), Text: m.name("said ")}
	}
	again := chance(t, 20, "twice")
	settle := func(name string) *mailroom.Run {
		r, err := twice(t, m.twin, name, func(l *ledger.Ledger) (*mailroom.Run, error) { return l.Settle(m.ctx, s) })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r
	}
	settle("settle")
	if again {
		log := m.after.Logs[c.Thread]
		settle("settle again")
		if len(m.after.Logs[c.Thread]) != len(log) {
			t.Fatalf("a settle was written twice")
		}
	}
}

func ending(t *rapid.T, c mailroom.Claim) mailroom.Settle {
	s := mailroom.Settle{Claim: c, Outcome: mailroom.Fail, Jitter: 0.5, Forced: rapid.Bool().Draw(t, "forced")}
	class := rapid.SampledFrom([]mailroom.Class{"", "", "release", mailroom.Transient, mailroom.Transient, mailroom.Outage, mailroom.Permanent}).Draw(t, "end")
	switch class {
	case "":
		s.Outcome = mailroom.Complete
	case "release":
		s.Outcome = mailroom.Release
	default:
		s.Failure = &mailroom.Failure{Class: class, Err: errors.New("no luck"), RetryAfter: time.Duration(rapid.IntRange(0, 5).Draw(t, "after")) * time.Second}
	}
	return s
}
