package ledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// end completes a run with metadata, which costs a dollar.
func (d *fixture) end(metadata map[string]string) *mailroom.Run {
	d.t.Helper()
	in := text("t", "hello")
	in.Metadata = metadata
	d.submit(in)
	return d.settle(complete(d.use(1), "done"))
}

// use claims the run that is due, which uses some dollars.
func (d *fixture) use(dollars float64) mailroom.Claim {
	d.t.Helper()
	c := d.claimOne("w").Claim
	must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1,
		Step: mailroom.Step{Name: "used", Usage: mailroom.Usage{CostUSD: dollars}}}))(d.t)
	return c
}

// labelSums returns the runs and dollars of each value in the rows of a step, such as "customer=acme 2 $3".
func (d *fixture) labelSums(step string) string {
	d.t.Helper()
	of := map[string]store.SummaryQuery{"day": {Step: store.StepLabelDay}, "ever": {Step: store.StepLabel}}[step]
	var out []string
	err := d.View(d.ctx, func(r store.Reader) error {
		rows, err := r.Count(store.CountQuery{Summaries: &of})
		for _, s := range rows.Summaries {
			out = append(out, fmt.Sprintf("%s %s %d $%d", s.Key.Agent, s.Key.Status, s.Sums.Runs, s.Sums.Cost/1e9))
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

// A retry by hand ends the run again: that end counts for the label of its server, with what the run used since.
func TestARetriedRunIsCountedForTheLabelOfEachEnd(t *testing.T) {
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for name, s := range map[string]store.Store{"memory": memory.New(), "sqlite": file} {
		t.Run(name, func(t *testing.T) {
			customer := open(t, s, ledger.Options{Label: "customer"})
			region := start(t, s, ledger.Options{Label: "region"}) // another server, whose setting differs
			plain := start(t, s, ledger.Options{})
			customer.register("w")
			in := text("t", "hello")
			in.Metadata = map[string]string{"customer": "acme", "region": "eu"}
			customer.submit(in)
			run := customer.settle(failure(customer.use(1), mailroom.ClassPermanent))
			if want := "customer=acme failed 1 $1"; customer.labelSums("day") != want || customer.labelSums("ever") != want {
				t.Errorf("after its end: %s; %s, want %s", customer.labelSums("day"), customer.labelSums("ever"), want)
			}
			again := func(d *fixture, want string) *mailroom.Run {
				must(d.Retry(d.ctx, thread.Retry{Run: run.ID}))(t)
				d.round = max(customer.round, region.round, plain.round)
				r := d.settle(failure(d.use(2), mailroom.ClassPermanent))
				if d.labelSums("day") != want || d.labelSums("ever") != want {
					t.Errorf("after another end: %s; %s, want %s", d.labelSums("day"), d.labelSums("ever"), want)
				}
				return r
			}
			again(region, "customer=acme failed 1 $1, region=eu failed 1 $2")
			if r := again(plain, "customer=acme failed 1 $1, region=eu failed 1 $2"); r.Labelled != (mailroom.Labelled{}) {
				t.Errorf("a server without a label keeps %+v", r.Labelled)
			}
			again(customer, "customer=acme failed 2 $3, region=eu failed 1 $2")
		})
	}
}

func TestValuesOfALabelAreBounded(t *testing.T) {
	s := memory.New()
	d := open(t, s, ledger.Options{Label: "customer"})
	d.register("w")
	long := strings.Repeat("é", 64)
	for _, value := range []string{"a=b", "a\n\u202eb", long, long + "x", long + "y", " ", ""} {
		d.end(map[string]string{"customer": value, "other": "x"})
	}
	d.end(nil)
	want := "customer=a\n\u202eb completed 1 $1, customer=a=b completed 1 $1, customer=" + long +
		" completed 1 $1, customer=" + long + "… completed 2 $2"
	if got := d.labelSums("day"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range store.MaxLabelValues {
		d.end(map[string]string{"customer": fmt.Sprint("c", i)})
	}
	count := func(d *fixture) int { return strings.Count(d.labelSums("ever"), "customer=") }
	if got := count(d); got != store.MaxLabelValues {
		t.Errorf("%d values are counted, want %d", got, store.MaxLabelValues)
	}
	restarted := start(t, s, ledger.Options{Label: "customer"})
	restarted.round = d.round
	restarted.end(map[string]string{"customer": "new"})
	if r := restarted.end(map[string]string{"customer": "c1"}); r.Labelled.Key != "customer=c1" {
		t.Errorf("a value that is known is counted for %q", r.Labelled.Key)
	}
	if got := count(restarted); got != store.MaxLabelValues {
		t.Errorf("after a restart %d values are counted, want %d", got, store.MaxLabelValues)
	}
	var keys []string
	if err := s.View(context.Background(), func(r store.Reader) (err error) {
		keys, err = store.LabelKeys(r, "customer")
		return err
	}); err != nil || len(keys) != store.MaxLabelValues {
		t.Errorf("listed %d values (%v), want %d", len(keys), err, store.MaxLabelValues)
	}
}
