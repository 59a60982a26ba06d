package ledger_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// read tells a transcript as "role text/state, …"; a partial text ends in "…".
func (d *fixture) read(q ledger.TranscriptQuery) (string, string) {
	d.t.Helper()
	items, next, err := d.Transcript(d.ctx, q)
	if err != nil {
		d.t.Fatal(err)
	}
	return formatMessages(items), next
}

func formatMessages(items []mailroom.Message) string {
	var lines []string
	for _, m := range items {
		line := fmt.Sprintf("%s %s", m.Role, m.Text)
		if m.Partial {
			line += "…"
		}
		if m.State != mailroom.MessageDone {
			line += "/" + m.State
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func TestTheTranscriptAlternatesQuestionsAndAnswers(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	first := d.claimOne("w")
	d.submit(text("t", "two"))
	d.submit(text("t", "three"))
	d.settle(complete(first.Claim, "re: one"))
	d.serve("w")
	got, next := d.read(ledger.TranscriptQuery{Thread: "t"})
	wantEqual(t, "transcript", got,
		"user one, assistant re: one, user two, assistant re: two, user three, assistant re: three")
	wantEqual(t, "next", next, "")
}

func TestUnreadMessagesAreInTheListOfAllMessagesOnly(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "old"))
	d.submit(mode(mailroom.ModeLatest, "t", "new"))
	d.serve("w")
	back := d.submit(text("t", "oops"))
	if err := d.Retract(t.Context(), "t", back.Message); err != nil {
		t.Fatal(err)
	}
	d.submit(text("t", "waits"))
	got, _ := d.read(ledger.TranscriptQuery{Thread: "t"})
	wantEqual(t, "transcript", got, "user new, assistant re: new")
	got, _ = d.read(ledger.TranscriptQuery{Thread: "t", All: true})
	wantEqual(t, "all", got, "user old/superseded, user new, assistant re: new, user oops/retracted, user waits/accepted")
}

func TestASteeredMessageIsListedWhereItWasRead(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	c := d.claimOne("w").Claim
	s := d.submit(mode(mailroom.ModeSteer, "t", "left"))
	must(d.Append(t.Context(), thread.StepCommit{Claim: c, Number: 1, Message: partialText(c, "I go")}))(t)
	must(d.Edit(t.Context(), "t", s.Message, mailroom.Text("right")))(t)
	must(d.MarkSteersRead(t.Context(), c))(t)
	d.settle(complete(c, "I turn right"))
	got, _ := d.read(ledger.TranscriptQuery{Thread: "t"})
	wantEqual(t, "transcript", got, "user go, assistant I go, user right, assistant I turn right")
}

func TestTheMessageOfASteerIsInTheLogOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "go"))
	c := d.claimOne("w").Claim
	d.submit(mode(mailroom.ModeSteer, "t", "left"))
	d.settle(complete(c, "done"))
	d.serve("w")
	wantEqual(t, "log", d.kinds("t"), "message, run.queued, run.started, message, message, run.completed, run.queued, "+
		"run.started, message, run.completed")
	got, _ := d.read(ledger.TranscriptQuery{Thread: "t"})
	wantEqual(t, "transcript", got, "user go, assistant done, user left, assistant re: left")
}

func TestPartialMessagesAreListedOnlyIfTheRunEndedWithoutAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		end := func(thread string, last func(c mailroom.Claim)) {
			d.submit(text(thread, "go"))
			c := d.claimOne("w").Claim
			s := failure(c, mailroom.ClassTransient)
			s.Message = partialText(c, "first try")
			d.settle(s)
			<-time.After(5 * time.Second)
			last(d.claimOne("w").Claim)
		}
		end("completed", func(c mailroom.Claim) { d.settle(complete(c, "second try")) })
		end("failed", func(c mailroom.Claim) {
			s := failure(c, mailroom.ClassPermanent)
			s.Message = partialText(c, "second try")
			d.settle(s)
		})
		end("cancelled", func(c mailroom.Claim) {
			must(d.Cancel(d.ctx, c.Run, "ann"))(t)
			s := release(c)
			s.Message = partialText(c, "second try")
			d.settle(s)
		})
		end("running", func(c mailroom.Claim) {})
		for thread, want := range map[string]string{
			"completed": "user go, assistant second try",
			"failed":    "user go/read, assistant first try…, assistant second try…",
			"cancelled": "user go/read, assistant first try…, assistant second try…",
			"running":   "user go/delivered",
		} {
			got, _ := d.read(ledger.TranscriptQuery{Thread: thread})
			wantEqual(t, thread, got, want)
		}
	})
}

// busyThread is a thread with something of everything in its log.
func busyThread(d *fixture) {
	d.register("w")
	for i := range 30 {
		three := text("t", fmt.Sprint("question ", i))
		if i%5 == 0 {
			three.Messages = append(three.Messages, thread.NewMessage{Parts: mailroom.Text("and more"),
				Visibility: mailroom.VisibleInternal}, three.Messages[0])
		}
		out := d.submit(three)
		switch i % 6 {
		case 1:
			d.submit(mode(mailroom.ModeLatest, "t", "instead"))
		case 2:
			must(d.Edit(d.ctx, "t", out.Message, mailroom.Text("edited")))(d.t)
		case 3:
			if err := d.Retract(d.ctx, "t", out.Message); err != nil {
				d.t.Fatal(err)
			}
			continue
		}
		c := d.claimOne("w").Claim
		if i%4 == 0 {
			d.submit(mode(mailroom.ModeSteer, "t", "steered"))
			must(d.MarkSteersRead(d.ctx, c))(d.t)
		}
		if i%7 == 0 {
			s := failure(c, mailroom.ClassPermanent)
			s.Message = partialText(c, "so f")
			d.settle(s)
			continue
		}
		d.settle(complete(c, fmt.Sprint("answer ", i)))
	}
	d.submit(text("t", "waits"))
}

func TestEveryLimitReadsTheSameTranscript(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	busyThread(d)
	for _, base := range []ledger.TranscriptQuery{
		{Thread: "t"}, {Thread: "t", All: true}, {Thread: "t", Visibility: mailroom.VisibleAll},
		{Thread: "t", Visibility: mailroom.VisibleInternal},
	} {
		base.Limit = 10_000
		want, next := d.read(base)
		if want == "" || next != "" {
			t.Fatalf("the whole transcript: %q, next %q", want, next)
		}
		for _, limit := range []int{1, 2, 7, 100} {
			q := base
			q.Limit = limit
			var pages []string
			for {
				page, next := d.read(q)
				if page != "" {
					pages = append([]string{page}, pages...)
				}
				if next == "" {
					break
				}
				q.Before = next
			}
			wantEqual(t, fmt.Sprintf("in pages of %d", limit), strings.Join(pages, ", "), want)
		}
	}
}

func TestACursorOfAnotherListIsInvalid(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("t", "hello"))
	for _, bad := range []string{"x", "0", "-1", "1.5"} {
		_, _, err := d.Transcript(t.Context(), ledger.TranscriptQuery{Thread: "t", Before: bad})
		wantCode(t, err, mailroom.CodeInvalid)
	}
}

func TestARunSeesTheTranscriptBeforeItsOwnInput(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	d.serve("w")
	d.submit(text("t", "two"))
	work := d.claimOne("w")
	before := must(d.CursorBefore(t.Context(), work.Run))(t)
	d.settle(release(work.Claim))
	d.claimOne("w")
	wantEqual(t, "cursor of a later attempt", must(d.CursorBefore(t.Context(), work.Run))(t), before)
	got, _ := d.read(ledger.TranscriptQuery{Thread: "t", Before: before})
	wantEqual(t, "transcript", got, "user one, assistant re: one")
}

// The fold of the pages, clients/js/transcript.js, is tested with the same logs.
func TestTheTranscriptEqualsTheFoldOfThePages(t *testing.T) {
	raw, err := os.ReadFile("../testdata/reading.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string
		Entries []mailroom.Entry
		Read    []string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s := memory.New()
		at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		row := &mailroom.Thread{ID: "t", Agent: "echo", FirstSeq: 1, LastSeq: int64(len(c.Entries)), CreatedAt: at,
			UpdatedAt: at}
		for i, e := range c.Entries {
			c.Entries[i] = must(entry.New("t", int64(i+1), e.Kind, e.Run, e.Attempt, at, e.Body))(t)
		}
		err := s.Update(t.Context(), func(tx store.Tx) error {
			return tx.Write(&store.Changes{Threads: []*mailroom.Thread{row}, Entries: [][]mailroom.Entry{c.Entries}})
		})
		if err != nil {
			t.Fatal(err)
		}
		d := start(t, s, ledger.Options{})
		for _, all := range []bool{false, true} {
			items, _, err := d.Transcript(d.ctx, ledger.TranscriptQuery{Thread: "t", All: all})
			var read []string
			for _, m := range items {
				read = append(read, m.Text)
			}
			if diff := cmp.Diff(c.Read, read); diff != "" || err != nil {
				t.Errorf("%s (all: %v): %v\n%s", c.Name, all, err, diff)
			}
		}
	}
}

func TestMessagesReadOnResumeAreInTheTranscript(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	park := func(a mailroom.Ask) {
		t.Helper()
		c := d.claimOne("w").Claim
		number := d.run(c.Run).Step + 1
		d.settle(thread.Settle{Claim: c, Number: number, Outcome: thread.OutcomePark, Asks: []mailroom.Ask{a},
			Wait: &mailroom.Wait{Names: []string{a.Name}}})
	}
	run := d.submit(text("t", "go")).Run
	park(mailroom.Ask{Name: "how", Kind: mailroom.TicketInput, Prompt: "how?"})
	answer := d.submit(text("t", "quickly"))
	park(mailroom.Ask{Name: "may", Kind: mailroom.TicketApproval, Prompt: "may I?"})
	steer := d.submit(mode(mailroom.ModeSteer, "t", "with care"))
	d.decide(run, "may", mailroom.VerdictApprove)
	park(mailroom.Ask{Name: "mail", Kind: mailroom.TicketEvent})
	wakes := d.submit(text("t", "mail!"))
	d.settle(complete(d.claimOne("w").Claim, "done"))
	d.submit(text("t", "next"))
	next := d.claimOne("w")
	before, err := d.TranscriptBefore(d.ctx, next.Run, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := "user go, user quickly, user with care, user mail!, assistant done"
	wantEqual(t, "what the next run gets", formatMessages(before), want)
	d.settle(complete(next.Claim, "too"))
	for _, all := range []bool{false, true} {
		got, _ := d.read(ledger.TranscriptQuery{Thread: "t", All: all})
		wantEqual(t, "transcript", got, want+", user next, assistant too")
	}
	got, cursor := d.read(ledger.TranscriptQuery{Thread: "t", Limit: 3})
	wantEqual(t, "last page", got, "assistant done, user next, assistant too")
	got, _ = d.read(ledger.TranscriptQuery{Thread: "t", Limit: 3, Before: cursor})
	wantEqual(t, "page before", got, "user quickly, user with care, user mail!")
	for _, id := range []string{answer.Message, steer.Message, wakes.Message} {
		if m, err := d.Message(d.ctx, "t", id); err != nil || m.State != mailroom.MessageDone {
			t.Errorf("message %s: %+v, %v", id, m, err)
		}
	}
}
