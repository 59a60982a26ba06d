package ledger_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// limited starts a ledger with a token ann that has these quotas.
func limited(t *testing.T, q auth.Quotas) *fixture {
	t.Helper()
	d := open(t, nil, ledger.Options{Quotas: auth.Quotas{"threads": 1000}})
	in := account("ann", "sum")
	in.Quotas = q
	must(d.Accounts().CreateToken(d.ctx, in))(t)
	return d
}

func (d *fixture) used() auth.Use { d.t.Helper(); return d.tokens()[0].Used }

func (d *fixture) size(threads ...string) (n int64) {
	for _, thread := range threads {
		for _, e := range d.log(thread) {
			n += int64(len(e.Raw))
		}
	}
	return n
}

func TestUseIsCountedByTheNameOfTheToken(t *testing.T) {
	d := limited(t, nil)
	d.submit(text("a", "one"))
	d.submit(text("b", "two"))
	wantEqual(t, "used", d.used(), auth.Use{Threads: 2, Bytes: d.size("a", "b")})
	d.register("w")
	d.serve("w")
	wantEqual(t, "after the runs", d.used(), auth.Use{Threads: 2, Bytes: d.size("a", "b")})
	if err := d.DeleteThread(d.ctx, "a", ann()); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "after one was deleted", d.used(), auth.Use{Threads: 1, Bytes: d.size("b")})
	if err := d.Purge(d.ctx, "b", -time.Hour); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "after the other was purged", d.used(), auth.Use{Threads: 1, Bytes: d.size("b")})
	if err := d.Accounts().RevokeToken(d.ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	must(d.Accounts().CreateToken(d.ctx, account("ann", "another")))(t)
	wantEqual(t, "of the next token of the name", d.used(), auth.Use{Threads: 1, Bytes: d.size("b")})
}

func TestAQuotaLimitsSubmitsAndNoRunningWork(t *testing.T) {
	d := limited(t, auth.Quotas{"threads": 1, "bytes": 2000})
	in := text("t", "one")
	in.Key = "k"
	first := d.submit(in)
	_, err := d.Submit(d.ctx, text("u", "a second thread"))
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	d.register("w")
	c := d.claimOne("w").Claim
	must(d.Append(d.ctx, thread.StepCommit{Claim: c, Number: 1,
		Message: &thread.PartialText{ID: partialText(c, "").ID, Text: string(make([]byte, 0)) + fmt.Sprintf("%4000d", 1)}}))(
		t)
	d.settle(thread.Settle{Claim: c, Number: 2, Outcome: thread.OutcomeComplete})
	_, err = d.Submit(d.ctx, text("t", "two"))
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	wantEqual(t, "a repeat", d.submit(in).Run, first.Run)
	other := text("of the operator", "free")
	other.Owner = auth.Operator
	d.submit(other)
	must(d.Accounts().SetQuotas(d.ctx, "ann", auth.Quotas{"bytes": 0}))(t)
	d.submit(text("u", "now there is room"))
}

func TestOperationsOfOneBatchSeeEachOthersUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{Quotas: auth.Quotas{"threads": 4}})
		must(d.Accounts().CreateToken(d.ctx, account("ann", "sum")))(t)
		var all []func() error
		for i := range 5 {
			all = append(all, func() error { _, err := d.Submit(d.ctx, text(fmt.Sprint("t", i), "hello")); return err })
		}
		errs := gatherBatch(t, d, f, all...)
		refused := 0
		for _, err := range errs {
			if mailroom.CodeOf(err) == mailroom.CodeQuotaExceeded {
				refused++
			}
		}
		if got := d.used().Threads; got != 4 || refused == 0 {
			t.Errorf("%d threads were made and %d refused, want 4 threads", got, refused)
		}
	})
}

func TestTheLiveWorkersOfATokenAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := limited(t, auth.Quotas{"workers": 2})
		begin := func(id string) error {
			_, err := d.Register(d.ctx, store.Worker{ID: id, Owner: "ann", Agents: []string{"far"}})
			return err
		}
		wantCode(t, begin("w1"), "")
		wantCode(t, begin("w2"), "")
		wantCode(t, begin("w3"), mailroom.CodeQuotaExceeded)
		wantEqual(t, "used", d.used().Workers, 2)
		d.deregister("w1")
		wantCode(t, begin("w4"), "")
		<-time.After(16 * time.Second)
		d.sweep()
		wantEqual(t, "after their leases", d.used().Workers, 0)
	})
}

func TestAQuotaLimitsNotificationsReservationsAndEdits(t *testing.T) {
	d := limited(t, auth.Quotas{"bytes": 1000, "threads": 2})
	in := text("t", "one")
	message := d.submit(in).Message
	notify := func(event, key string) error {
		_, err := d.Projects().Notify(d.ctx, project.Notify{Project: "p", Key: key, By: ann(),
			Notification: project.Notification{From: "a", Event: event}})
		return err
	}
	wantCode(t, notify("done", "k"), "")
	held := must(d.Projects().Reserve(d.ctx, reserve("a", "src/**")))(t).Granted[0]
	_, err := d.Edit(d.ctx, "t", message, mailroom.Text(fmt.Sprintf("%1000d", 1)))
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	must(d.Accounts().SetQuotas(d.ctx, "ann", auth.Quotas{"bytes": d.used().Bytes, "threads": 2}))(t)
	wantCode(t, notify("again", ""), mailroom.CodeQuotaExceeded)
	wantCode(t, notify("done", "k"), "") // a repeat adds nothing
	_, err = d.Projects().Reserve(d.ctx, reserve("a", "doc/**"))
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	must(d.Projects().Reserve(d.ctx, reserve("a", "src/**")))(t) // a renewal adds nothing either
	must(d.Projects().Release(d.ctx, held.ID, ann(), false))(t)
	must(d.Accounts().SetQuotas(d.ctx, "ann", auth.Quotas{"threads": 2}))(t)
	other := reserve("a", "src/**")
	other.Project = "another"
	_, err = d.Projects().Reserve(d.ctx, other)
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	_, err = d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "another", Agent: "a", By: ann(), Limit: 1,
		Consume: true})
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	wantEqual(t, "threads", d.used().Threads, 2)
}
