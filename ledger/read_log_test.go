package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// note commits a step with one entry.
func (d *fixture) note(c mailroom.Claim, kind, body string) {
	d.t.Helper()
	must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1, Step: mailroom.Step{
		Entries: []mailroom.AgentEntry{{Kind: kind, Body: json.RawMessage(body)}}}}))(d.t)
}

// logOf returns a page of what a run may read, as "kind body" without the bodies of messages.
func (d *fixture) logOf(r *mailroom.Run, q mailroom.LogQuery) (lines []string, next int64) {
	d.t.Helper()
	page, next, err := d.LogOf(d.ctx, r, q)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range page {
		line := e.Kind
		if strings.HasPrefix(e.Kind, "x.") || strings.HasPrefix(e.Kind, "tool.") {
			line += " " + string(e.Body)
		}
		lines = append(lines, line)
	}
	return lines, next
}

// The owner of a thread reads its whole log; a worker that serves one agent of the thread does not get the tools'
// output of another.
func TestARunReadsMessagesAndWhatItsOwnAgentWrote(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	must(d.Register(d.ctx, store.Worker{ID: "w", Agents: []string{"codex", "echo"}}))(t)
	for _, agent := range []string{"codex", "echo", "codex"} {
		in := text("t", "go")
		in.Agent = agent
		d.submit(in)
		d.round++
		w := must(d.Claim(d.ctx, thread.ClaimRequest{Worker: "w", Round: d.round, Slots: 1,
			Agents: map[string]int{agent: 1}}))(t)[0]
		d.note(w.Claim, entry.KindToolDone, fmt.Sprintf(`{"of":%q}`, w.Run.Agent))
		if agent == "echo" || len(d.log("t")) < 12 {
			d.settle(thread.Settle{Claim: w.Claim, Number: 2, Outcome: thread.OutcomeComplete,
				Message: &thread.PartialText{ID: w.Run.ID + ".1-1", Text: "done"}})
			continue
		}
		got, _ := d.logOf(w.Run, mailroom.LogQuery{Kinds: []string{entry.KindToolDone, entry.KindMessage}})
		wantEqual(t, "log", strings.Join(got, ", "), `message, tool.finished {"of":"codex"}, message, message, message, `+
			`message, tool.finished {"of":"codex"}`)
		all, _ := d.logOf(w.Run, mailroom.LogQuery{})
		wantEqual(t, "starts of its own agent", strings.Count(strings.Join(all, " "), entry.KindStarted), 2)
	}
}

// Pages of any size, from the newest to the oldest, are the whole.
func TestPagesOfALogHaveEachEntryOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	w := d.claimOne("w")
	large := strings.Repeat("x", mailroom.MaxAgentEntry-100)
	for n := range 40 { // over 4 MiB: pages end by their size too
		d.note(w.Claim, "x.note", fmt.Sprintf(`{"n":%d,"text":%q}`, n, large))
	}
	for _, limit := range []int{1, 3, 7, 1000} {
		var seqs []int64
		q := mailroom.LogQuery{Kinds: []string{"x.note"}, Limit: limit}
		for {
			page, next, err := d.LogOf(d.ctx, w.Run, q)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for i := range page {
				seqs = append(seqs, page[len(page)-1-i].Seq)
				size += len(page[i].Raw)
			}
			if len(page) > limit || size > mailroom.MaxPage {
				t.Fatalf("a page of %d entries and %d bytes, want at most %d and %d", len(page), size, limit, mailroom.MaxPage)
			}
			if q.Before = next; next == 0 {
				break
			}
		}
		wantEqual(t, "entries", len(seqs), 40)
		for i := 1; i < len(seqs); i++ {
			if seqs[i] >= seqs[i-1] {
				t.Fatalf("limit %d: entry %d follows entry %d, want each once, backwards", limit, seqs[i], seqs[i-1])
			}
		}
	}
}
