package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// completeRuns completes n runs in thread "t".
func (d *fixture) completeRuns(n int) {
	d.t.Helper()
	for range n {
		d.submit(text("t", "hello"))
		d.settle(complete(d.claimOne("w").Claim, "re"))
	}
}

func TestAPurgeKeepsEverythingSinceTheOldestOpenRun(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.completeRuns(3)
	last := d.thread("t").LastSeq
	d.submit(text("t", "to be asked about"))
	work := d.claimOne("w")
	d.settle(park(work.Claim, nil, approval("ok")))
	must(0, d.Purge(d.ctx, "t", 0))(t)
	wantEqual(t, "first seq", d.thread("t").FirstSeq, last+1)
	wantEqual(t, "entries", d.kinds("t"), "message, run.queued, run.started, ticket.opened, run.waiting")
	d.decide(work.Run.ID, "ok", mailroom.VerdictApprove)
	again := d.claimOne("w")
	wantEqual(t, "input", d.input(again.Run), "to be asked about")
	d.settle(complete(again.Claim, "done"))
}

// The check of invariants at the end must accept a run whose first entry is its end: it may have started
// in the purged part.
func TestSupersedingASteerAfterAPurgeBreaksNoInvariant(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.completeRuns(2)
	must(0, d.Purge(d.ctx, "t", 0))(t)
	d.submit(text("t", "hello"))
	d.claimOne("w")
	steered := d.submit(mode(mailroom.ModeSteer, "t", "and this"))
	out := d.submit(mode(mailroom.ModeInterrupt, "t", "no, that"))
	own, _, _ := strings.Cut(steered.Message, ".")
	wantEqual(t, "superseded", out.Superseded, []string{own})
}

// A run that starts late records its reads after the first entry of a run that was queued since.
func TestATranscriptOmitsMessagesPurgedBeforeTheyWereRead(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "early"))
	edited := d.submit(text("t", "early and edited"))
	d.submit(text("t", "late"))
	must(d.Edit(d.ctx, "t", edited.Message, mailroom.Text("early and edited late")))(t)
	d.settle(complete(d.claimOne("w").Claim, "one"))
	d.settle(complete(d.claimOne("w").Claim, "two"))
	must(0, d.Purge(d.ctx, "t", 0))(t)
	d.settle(complete(d.claimOne("w").Claim, "three"))
	items, _, err := d.Transcript(d.ctx, ledger.TranscriptQuery{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range items {
		texts = append(texts, m.Text)
	}
	wantEqual(t, "transcript", texts, []string{"one", "two", "late", "three"})
}

func TestAPurgeKeepsEntriesYoungerThanTheRetention(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.completeRuns(2)
	must(0, d.Purge(d.ctx, "t", time.Hour))(t)
	wantEqual(t, "first seq", d.thread("t").FirstSeq, 1)
	must(0, d.Purge(d.ctx, "t", 0))(t)
	row := d.thread("t")
	wantEqual(t, "first seq", row.FirstSeq, row.LastSeq+1)
	d.completeRuns(1) // a seq is never used again
	wantEqual(t, "first entry", d.log("t")[0].Seq, row.LastSeq+1)
}

// Its entries are old, but an answer that came a moment ago must not be gone before anybody has read it.
func TestAPurgeKeepsARunThatEndedJustNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, ledger.Options{})
		d.register("w")
		d.submit(text("t", "hello"))
		work := d.claimOne("w")
		for range 10 { // a lease is shorter
			<-time.After(5 * time.Second)
			must(d.Renew(d.ctx, thread.Renewal{Worker: "w", Held: []mailroom.Claim{work.Claim}}))(t)
		}
		d.settle(complete(work.Claim, "re"))
		must(0, d.Purge(d.ctx, "t", 30*time.Second))(t)
		wantEqual(t, "first seq", d.thread("t").FirstSeq, 1)
		<-time.After(time.Minute)
		must(0, d.Purge(d.ctx, "t", 30*time.Second))(t)
		row := d.thread("t")
		wantEqual(t, "first seq", row.FirstSeq, row.LastSeq+1)
	})
}

func TestSeveralThreadsArePurgedAndAFailureIsReported(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	var all []string
	for i := range 20 {
		id := fmt.Sprint("t", i)
		all = append(all, id)
		d.submit(text(id, "hello"))
		d.settle(complete(d.claimOne("w").Claim, "re"))
	}
	must(0, d.PurgeEach(d.ctx, all, 0))(t)
	for _, id := range all {
		row := d.thread(id)
		wantEqual(t, "first seq of "+id, row.FirstSeq, row.LastSeq+1)
	}
	stopped, stop := context.WithCancel(d.ctx)
	stop()
	if err := d.PurgeEach(stopped, all, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a purge whose context has ended: %v, want %v", err, context.Canceled)
	}
}

// betweenViews is a store that calls f once, after the next View.
type betweenViews struct {
	store.Store
	mu sync.Mutex
	f  func()
}

func (b *betweenViews) View(ctx context.Context, f func(store.Reader) error) error {
	err := b.Store.View(ctx, f)
	b.mu.Lock()
	then := b.f
	b.f = nil
	b.mu.Unlock()
	if then != nil {
		then()
	}
	return err
}

func TestAPurgeKeepsARunThatIsRetriedDuringIt(t *testing.T) {
	s := &betweenViews{Store: memory.New()}
	d := open(t, s, ledger.Options{})
	d.register("w")
	d.completeRuns(1)
	out := d.submit(text("t", "again"))
	d.settle(failure(d.claimOne("w").Claim, mailroom.ClassPermanent))
	s.mu.Lock()
	s.f = func() { must(d.Retry(d.ctx, thread.Retry{Run: out.Run}))(t) }
	s.mu.Unlock()
	must(0, d.Purge(d.ctx, "t", 0))(t)
	wantEqual(t, "first seq", d.thread("t").FirstSeq, d.run(out.Run).FirstSeq)
	work := d.claimOne("w")
	wantEqual(t, "input", d.input(work.Run), "again")
	d.settle(complete(work.Claim, "done"))
}

func TestAPurgeWorksInSmallSteps(t *testing.T) {
	store := newControlledStore(nil)
	d := open(t, store, ledger.Options{})
	d.register("w")
	out := d.submit(text("t", "much"))
	work := d.claimOne("w")
	step := mailroom.Step{}
	for range 1200 {
		step.Entries = append(step.Entries, mailroom.AgentEntry{Kind: "x.note", Body: json.RawMessage(`{}`)})
	}
	must(d.Append(d.ctx, thread.StepCommit{Claim: work.Claim, Number: 1, Step: step}))(t)
	d.settle(complete(work.Claim, "done"))

	store.updates()
	must(0, d.Purge(d.ctx, "t", 0))(t)
	if n := store.updates(); n < 3 {
		t.Errorf("%d entries were purged in %d transactions, want several of at most 500", d.thread("t").LastSeq, n)
	}
	wantEqual(t, "run is gone", len(d.runsOf(out.Run)), 0)
}

func (d *fixture) runsOf(id string) (found []*mailroom.Run) {
	d.t.Helper()
	d.view(func(r store.Reader) (err error) {
		found, err = r.Runs(store.RunQuery{IDs: []string{id}})
		return err
	})
	return found
}
