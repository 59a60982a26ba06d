package ledger_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

func TestASendSaysWhatASubmitMaySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("p", "go"))
		p := d.claimIn("p")
		s := mailroom.Send{
			Name: "later", Thread: "c", Priority: new(7), Delay: time.Hour, Timeout: 2 * time.Hour,
			Options: json.RawMessage(`{"depth":1}`), Metadata: map[string]string{"customer": "ann"},
		}
		d.mustSend(p.Claim, s)
		child := d.run(d.sent(p, s))
		begun := child.CreatedAt
		wantEqual(t, "priority", child.Priority, 7)
		wantEqual(t, "not before", child.NotBefore, begun.Add(time.Hour))
		wantEqual(t, "deadline", child.Deadline, begun.Add(2*time.Hour))
		wantEqual(t, "options", string(child.Options), `{"depth":1}`)
		wantEqual(t, "metadata", child.Metadata["customer"], "ann")
		wantEqual(t, "runs that start before their time", len(d.claim("w", 1)), 0)

		// A later attempt sends it again, at another time.
		d.settle(failure(p.Claim, mailroom.ClassTransient))
		<-time.After(30 * time.Minute)
		d.renew("w", 1)
		p = d.claimIn("p")
		d.mustSend(p.Claim, s)
		wantEqual(t, "runs", len(d.allRunsOf("c")), 1)
		wantEqual(t, "its time", d.run(child.ID).NotBefore, begun.Add(time.Hour))
	})
}

// A run replaces what its own thread has sent to a thread that it has created, and nothing else.
func TestARunReplacesOnlyWhatItsOwnThreadHasSent(t *testing.T) {
	for _, mode := range []mailroom.Mode{mailroom.ModeLatest, mailroom.ModeInterrupt} {
		t.Run(string(mode), func(t *testing.T) {
			d := open(t, nil, ledger.Options{})
			d.register("w")
			d.submit(text("p", "go"))
			p := d.claimIn("p")
			d.mustSend(p.Claim, mailroom.Send{Name: "first", Thread: "c", Answer: mailroom.AnswerWait})
			child := d.claimIn("c")
			d.mustSend(p.Claim, mailroom.Send{Name: "second", Thread: "c", Answer: mailroom.AnswerWait})
			byAnn := d.submit(text("c", "and mine"))

			d.mustSend(p.Claim, mailroom.Send{Name: "third", Thread: "c", Mode: mode})
			wantEqual(t, "the ticket of what was replaced", d.ticket(p.Run.ID, "second").State, mailroom.TicketDecided)
			wantRun(d, byAnn.Run, mailroom.StatusQueued)
			wantEqual(t, "the current run is stopped", d.run(child.Run.ID).Stop != "", mode == mailroom.ModeInterrupt)

			d.submit(text("others", "hello"))
			for _, target := range []string{"others", "p"} {
				err := d.send(p.Claim, mailroom.Send{Name: "to " + target, Thread: target, Mode: mode})
				wantCode(t, err, mailroom.CodeForbidden)
			}
			d.mustSend(p.Claim, mailroom.Send{Name: "new", Mode: mode})
		})
	}
}

func TestAPersonReplacesNothingThatARunHasSent(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWait})
	in := text("c", "mine")
	in.Mode = mailroom.ModeLatest
	d.submit(in)
	wantEqual(t, "the ticket", d.ticket(p.Run.ID, "help").State, mailroom.TicketOpen)
}

func TestASendSteersTheRunAtWork(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	p := d.claimIn("p")
	d.mustSend(p.Claim, mailroom.Send{Name: "task", Thread: "c"})
	child := d.claimIn("c")
	d.mustSend(p.Claim, mailroom.Send{Name: "hint", Thread: "c", Mode: mailroom.ModeSteer})
	wantEqual(t, "messages steered into the child", len(d.run(child.Run.ID).Steers), 1)
}

func TestTheSendsOfOneRunCollect(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("p", "go"))
	d.submit(text("q", "go"))
	both := d.claim("w", 2)
	p, q := both[0], both[1]
	collect := func(c mailroom.Claim, name string) {
		d.mustSend(c, mailroom.Send{Name: name, Thread: "c", Mode: mailroom.ModeCollect})
	}
	collect(p.Claim, "one")
	collect(p.Claim, "two")
	wantEqual(t, "runs of two sends", len(d.allRunsOf("c")), 1)
	collect(q.Claim, "one") // of another run
	wantEqual(t, "runs of the sends of two runs", len(d.allRunsOf("c")), 2)
	awaited := mailroom.Send{Name: "awaited", Thread: "c", Answer: mailroom.AnswerWait}
	d.mustSend(q.Claim, awaited)
	collect(q.Claim, "three")
	wantEqual(t, "the run that is awaited has one message", len(d.run(d.sent(q, awaited)).Inputs), 1)
}

// sent returns the id of the run that a send has made.
func (d *fixture) sent(from thread.ClaimedRun, s mailroom.Send) string {
	_, id, _ := thread.SendIDs(s, from.Run.ID)
	return id
}

// allRunsOf returns the runs of a thread in every state.
func (d *fixture) allRunsOf(id string) (found []*mailroom.Run) {
	d.t.Helper()
	d.view(func(r store.Reader) (err error) {
		found, err = r.Runs(store.RunQuery{Thread: id})
		return err
	})
	return found
}
