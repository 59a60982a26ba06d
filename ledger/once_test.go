package ledger_test

import (
	"testing"

	"mailroom"
	"mailroom/ledger"
)

func TestARunWithMaxCrashes0IsNotStartedAgainAfterALostLease(t *testing.T) {
	for name, s := range kindsOfStores(t) {
		t.Run(name, func(t *testing.T) {
			d := open(t, s, ledger.Options{})
			once := text("a", "pay")
			once.MaxCrashes = new(int)
			id, next := d.submit(once).Run, d.submit(text("a", "next")).Run
			d.register("w")
			d.claimOne("w")
			d.expireWorker("w")
			r := d.run(id)
			wantEqual(t, "status and attempt", []any{r.Status, r.Attempt}, []any{mailroom.StatusFailed, 1})
			wantEqual(t, "class", r.Error.Class, mailroom.ClassCrashed)
			d.register("v")
			wantEqual(t, "what starts then", d.serve("v"), []string{next})
		})
	}
}
