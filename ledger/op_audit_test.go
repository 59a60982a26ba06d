package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// audited returns the audit log, one line for each action, and the entries themselves.
func (d *fixture) audited() (lines []string) {
	d.t.Helper()
	err := d.View(d.ctx, func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{Thread: reserved.AuditLog})
		for _, e := range found {
			var a entry.Audit
			if err := e.Decode(&a); err != nil {
				return err
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", a.Actor, a.Action, a.ObjectKind, a.Object)))
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return lines
}

// TestEachActionOfAnOperatorIsRecordedOnce performs each action twice, in all stores. The second time is a repeat or a
// refusal, which changes nothing and is not recorded.
func TestEachActionOfAnOperatorIsRecordedOnce(t *testing.T) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			rows := must(s.open())(t)
			t.Cleanup(func() {
				if err := rows.Close(); err != nil {
					t.Error(err)
				}
			})
			d := open(t, rows, ledger.Options{})
			for _, step := range operatorSteps(d) {
				d.wantRecorded(step)
			}
			for _, text := range d.log(reserved.AuditLog) {
				if strings.Contains(string(text.Raw), auditSecret) {
					t.Errorf("a secret is in the audit log: %s", text.Raw)
				}
			}
		})
	}
}

// auditSecret is in every text of operatorSteps that must not be recorded.
const auditSecret = "a secret of the test"

// operatorStep is an action of an operator and its record. A repeat has no effect, or is refused, unless again is set.
type operatorStep struct {
	want  string
	again bool
	do    func() error
}

func (d *fixture) wantRecorded(step operatorStep) {
	d.t.Helper()
	before := len(d.audited())
	if err := step.do(); err != nil {
		d.t.Errorf("%s: %v", step.want, err)
	}
	got := d.audited()
	if len(got) != before+1 || !strings.HasPrefix(got[before], step.want) {
		d.t.Errorf("recorded %q, want %q", got[before:], step.want)
		return
	}
	if step.again {
		return
	}
	_ = step.do() // refused, or without effect
	if again := d.audited(); len(again) != len(got) {
		d.t.Errorf("%s: the repeat recorded %q", step.want, again[len(got):])
	}
}

func operatorSteps(d *fixture) []operatorStep {
	ops, t := by(d.ctx, "ops"), d.t
	d.register("w")
	d.submit(text("t", "one"))
	asks := d.claimOne("w").Claim
	d.settle(park(asks, nil, approval("ok")))
	d.submit(text("u", "three"))
	d.settle(complete(d.claimOne("w").Claim, "done"))
	queued := d.submit(text("t", "four"))
	ask, agent := approval("ok"), "other"
	okay := thread.Decision{Ticket: thread.TicketID(asks.Run, "ok"), Verdict: mailroom.VerdictApprove, By: "ops",
		Reason: auditSecret, Digest: thread.AskDigest(&ask)}
	steps := []operatorStep{
		{"ops: agent.pause agent echo", true, func() error { return second(d.PauseAgent(ops, pauseOf("echo"))) }},
		{"ops: agent.resume agent echo", false, func() error { return d.ResumeAgent(ops, "echo") }},
		{"ops: run.cancel run " + queued.Run, false, func() error { return second(d.Cancel(ops, queued.Run, "ops")) }},
		{"ops: run.retry run " + queued.Run, false, func() error {
			return second(d.Retry(ops, thread.Retry{Run: queued.Run, By: "ops"}))
		}},
		{"ops: ticket.approve ticket " + okay.Ticket, false, func() error { return second(d.Decide(ops, okay)) }},
		{"ops: thread.change thread t", false, func() error {
			return second(d.PatchThread(ops, "t", thread.Patch{Agent: &agent}))
		}},
		{"ops: thread.interrupt thread t", false, func() error { return second(d.Interrupt(ops, "t", ann())) }},
		{"ops: thread.delete thread u", false, func() error { return d.DeleteThread(ops, "u", ann()) }},
		{"ops: rule.put rule r", false, func() error {
			done := ledger.Action{Name: "rule.put", ObjectKind: "rule", Object: "r"}
			return d.ChangeCursor(ledger.WithAction(ops, &done), "alerts", "ops",
				func(at json.RawMessage, _ time.Time) (json.RawMessage, error) {
					if at != nil {
						return nil, nil
					}
					return json.RawMessage(`1`), nil
				})
		}},
	}
	accounts := d.Accounts()
	end := time.Now().Add(time.Hour)
	made := account("bob", auditSecret)
	derived := func(kind auth.Kind) auth.Token {
		return auth.Token{Sum: auditSecret + string(kind), Terms: auth.Terms{Kind: kind, ExpiresAt: end,
			Scopes: []auth.Permission{auth.PermissionRead}}}
	}
	return append(steps,
		operatorStep{"ops: token.create token bob", false, func() error { return second(accounts.CreateToken(ops, made)) }},
		operatorStep{"ops: token.quotas token bob", true, func() error {
			return second(accounts.SetQuotas(ops, "bob", auth.Quotas{auth.QuotaThreads: 5}))
		}},
		operatorStep{"ops: token.create limited bob~", true, func() error {
			return second(accounts.DeriveToken(ops, derived(auth.KindLimited), &made))
		}},
		operatorStep{"bob: sign-in session bob~", true, func() error {
			must(accounts.DeriveToken(d.ctx, derived(auth.KindLink), &made))(t) // of the server: not recorded
			return second(accounts.SpendLink(ops, derived(auth.KindLink).Sum, derived(auth.KindSession)))
		}},
		operatorStep{"ops: sign-out session bob~", false, func() error {
			return accounts.DropSession(ops, derived(auth.KindSession).Sum)
		}},
		operatorStep{"ops: token.revoke token bob", false, func() error {
			return second(accounts.Revoke(ops, ledger.Revocation{Name: "bob", Cancel: true}))
		}},
	)
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

// What a token does with its own threads is its daily work, and what the server does has no caller.
func TestTheDailyWorkOfATokenIsNotRecorded(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	own := by(d.ctx, "ann")
	run := must(d.Submit(own, text("t", "one")))(t).Run
	must(d.Cancel(own, run, "ann"))(t)
	must(d.Retry(own, thread.Retry{Run: run, By: "ann"}))(t)
	must(d.Interrupt(own, "t", ann()))(t)
	must(d.PauseAgent(d.ctx, pauseOf("echo")))(t)
	wantEqual(t, "recorded", d.audited(), nil)
	must(d.Cancel(by(d.ctx, auth.Operator), must(d.Submit(d.ctx, text("t", "two")))(t).Run, auth.Operator))(t)
	wantEqual(t, "actions of the operator", len(d.audited()), 1)
}

// TestNoCallerChangesTheAuditLog tries to see, write, stop and delete the audit log, as the operator too.
func TestNoCallerChangesTheAuditLog(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	must(d.PauseAgent(by(d.ctx, auth.Operator), pauseOf("echo")))(t)
	before := d.log(reserved.AuditLog)
	for _, who := range []*auth.Token{auth.RunToken(auth.Operator), ann(), {Name: "bob", Namespace: reserved.Audit,
		Scopes: []auth.Permission{auth.PermissionSubmit}}} {
		in := text(reserved.AuditLog, "hello")
		in.By, in.Owner = who, who.Name
		wantCode(t, second(d.Submit(d.ctx, in)), mailroom.CodeForbidden)
		wantCode(t, d.DeleteThread(d.ctx, reserved.AuditLog, who), mailroom.CodeNotFound)
		wantCode(t, second(d.Interrupt(d.ctx, reserved.AuditLog, who)), mailroom.CodeNotFound)
	}
	wantCode(t, second(d.Submit(d.ctx, text(reserved.AuditLog, "of the server"))), mailroom.CodeForbidden)
	wantEqual(t, "the audit log", d.log(reserved.AuditLog), before)
}

// A decision that a chat passes on names who decided there.
func TestADecisionOfAChatNamesItsUser(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	asks := d.claimOne("w").Claim
	d.settle(park(asks, nil, approval("ok")))
	ctx := ledger.WithCaller(d.ctx, func() ledger.Caller { return ledger.Caller{Kind: "chat", From: "channel:tg"} })
	must(d.Decide(ctx, thread.Decision{
		Ticket: thread.TicketID(asks.Run, "ok"), Verdict: mailroom.VerdictDeny, By: "tg:7",
	}))(t)
	wantEqual(t, "recorded", d.audited(), []string{"tg:7: ticket.deny ticket " + thread.TicketID(asks.Run, "ok")})
}
