package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
)

// countingPartials records how much flushed text each Update reads.
type countingPartials struct {
	store.Store
	most *int
}

type countingPartialsTx struct {
	store.Tx
	bytes *int
}

func (s countingPartials) Update(ctx context.Context, f func(store.Tx) error) error {
	bytes := 0
	err := s.Store.Update(ctx, func(tx store.Tx) error { return f(countingPartialsTx{tx, &bytes}) })
	*s.most = max(*s.most, bytes)
	return err
}

func (t countingPartialsTx) Partials(runs ...string) ([]store.Partial, error) {
	list, err := t.Tx.Partials(runs...)
	for _, p := range list {
		*t.bytes += len(p.Text)
	}
	return list, err
}

// Many claims end at once, each with a long partial message.
func TestOneTransactionReadsABoundedPartOfTheFlushedText(t *testing.T) {
	for name, end := range map[string]func(d *fixture){
		"of a lost worker":     func(d *fixture) { d.expireWorker("w") },
		"of claims that ended": func(d *fixture) { <-time.After(3*time.Hour + 10*time.Second); d.sweep() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := 0
				d := open(t, countingPartials{memory.New(), &most}, ledger.Options{Lease: 2 * time.Hour})
				d.register("w")
				const runs, each, bound = 6, 1 << 20, 4 << 20
				for i := range runs {
					d.submit(text(fmt.Sprint("t", i), "hello"))
				}
				work := d.claim("w", runs)
				for _, w := range work {
					d.flush(w.Claim, 0, strings.Repeat("x", each))
				}
				end(d)
				for _, w := range work {
					if r := d.run(w.Run.ID); r.Status == mailroom.StatusRunning {
						t.Errorf("run %s still has a claim", r.ID)
					}
					if log := d.log(w.Run.Thread); !strings.Contains(d.kinds(w.Run.Thread), "run.started, message, ") ||
						len(log[3].Raw) < each {
						t.Errorf("thread %s has no message: %s", w.Run.Thread, d.kinds(w.Run.Thread))
					}
				}
				if most == 0 || most > bound {
					t.Errorf("one transaction read %d bytes of text, want at most %d", most, bound)
				}
			})
		})
	}
}
