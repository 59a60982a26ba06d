package ledger_test

import (
	"context"
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// operation is an operation of the ledger on the rows of [fillDay].
type operation struct {
	name   string
	do     func(ctx context.Context, l *ledger.Ledger) (any, error)
	again  func(ctx context.Context, l *ledger.Ledger) (any, error) // repeats the operation; nil: do repeats it
	claims bool                                                     // the operation continues after the end of its context
	// late is the code of a repeat after a success; "" if the repeat returns the first result.
	late mailroom.Code
	// doubles is set if a repeat may execute again. Such an operation has no key, and repeating it is
	// harmless.
	doubles bool
}

const dayLasts = time.Hour

// fillDay fills a store with threads in all states. The ids are always the same.
func fillDay(d *fixture, c *clock) {
	submit := func(thread, run string) {
		in := text(thread, "for "+run)
		in.Run = run
		d.submit(in)
	}
	claim := func(thread, run, worker string) mailroom.Claim {
		submit(thread, run)
		return d.claimOne(worker).Claim
	}
	ghost := text("ghosts", "anybody?")
	ghost.Run, ghost.Agent = "ghost", "ghost"
	d.submit(ghost)
	d.register("gone")
	claim("held", "lost", "gone")
	c.move(dayLasts) // the claims of "gone" can be revoked
	d.register("w", "idle")
	must(d.Register(d.ctx, store.Worker{ID: "local", Local: true}))(d.t)
	must(0, d.KeepDefinitions(d.ctx, []store.Definition{{Agent: "echo", Version: "v1", Body: json.RawMessage(`{}`)}}))(d.t)
	for _, name := range []string{"bob", "former"} {
		must(d.Accounts().CreateToken(d.ctx, account(name, "secret of "+name)))(d.t)
	}
	must(0, d.Accounts().RevokeToken(d.ctx, "former"))(d.t)
	for _, thread := range []string{"old", "done"} {
		d.settle(complete(claim(thread, thread, "w"), "well"))
	}
	d.settle(failure(claim("failed", "dead", "w"), mailroom.ClassPermanent))
	d.settle(park(claim("asks", "asker", "w"), nil, approval("ok"), mailroom.Ask{Name: "q", Kind: mailroom.TicketInput}))
	family := claim("parents", "parent", "w")
	d.mustSend(family, mailroom.Send{Name: "child", Thread: "children", Answer: mailroom.AnswerWait})
	d.settle(park(d.claimOne("w").Claim, nil, approval("may the child?")))
	d.settle(park(family, []string{"child"}))
	busy := claim("busy", "current", "w")
	d.flush(busy, 0, "so f")
	steer := mode(mailroom.ModeSteer, "busy", "and this")
	steer.Run = "steered"
	d.submit(steer)
	submit("busy", "queued")
	submit("due", "due")
	d.notify("a", "built", "", "x", "y")
}

func current() mailroom.Claim { return mailroom.Claim{Thread: "busy", Run: "current", Attempt: 1} }

// operations returns all operations that write.
func operations() []operation {
	all := append(append(append(runOperations(), threadOperations()...), tokenOperations()...), inboxOperations()...)
	for _, m := range []mailroom.Mode{
		mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeInterrupt, mailroom.ModeLatest, mailroom.ModeCollect,
	} {
		all = append(all, submission("submit "+string(m), mode(m, "busy", "hello")))
	}
	answer := text("asks", "yes")
	decided := text("asks", "and do")
	decided.Decisions = []thread.Decision{okayed()}
	all = append(all,
		submission("submit reject", mode(mailroom.ModeReject, "new", "hello")),
		submission("submit an answer", answer),
		submission("submit decisions", decided),
		submission("submit to no thread", text("", "hello")),
		submission("submit of a channel", received("chat", "", "1")),
		operation{name: "cursor", doubles: true, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil, l.MoveCursor(ctx, store.Cursor{Channel: "chat", Identity: "bot", Position: json.RawMessage(`2`)})
		}},
	)
	for i := range all { // each has a caller, so those of operators are recorded in the same transaction
		all[i].do = called(all[i].do)
		if all[i].again != nil {
			all[i].again = called(all[i].again)
		}
	}
	return all
}

// called makes an operation one of a caller whose threads are others.
func called(
	do func(ctx context.Context, l *ledger.Ledger) (any, error),
) func(context.Context, *ledger.Ledger) (any, error) {
	return func(ctx context.Context, l *ledger.Ledger) (any, error) { return do(by(ctx, "ops"), l) }
}

func submission(name string, in thread.Submit) operation {
	in.Run, in.Key = "submitted", "key"
	return operation{name: name, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
		out, err := l.Submit(ctx, in)
		return []any{out.Message, out.Run, out.Thread, out.Seq, out.Place}, err
	}}
}

// okayed decides the approval of fillDay. Equal questions have equal digests.
func okayed() thread.Decision {
	ask := approval("ok")
	return thread.Decision{Ticket: thread.TicketID("asker", "ok"), Verdict: mailroom.VerdictApprove, By: "ann",
		Digest: thread.AskDigest(&ask)}
}

// status returns the result of an operation that returns a run.
func status(r *mailroom.Run, err error) (any, error) {
	if r == nil {
		return nil, err
	}
	return []any{r.ID, r.Status, r.Stop, r.Reason, r.Step}, err
}

func runOperations() []operation {
	step := thread.StepCommit{Claim: current(), Number: 1, Message: partialText(current(), "so far"), Step: mailroom.Step{
		Name: "half", Checkpoint: json.RawMessage(`{"at":1}`), State: json.RawMessage(`{"n":1}`),
		Tickets: []mailroom.Ask{approval("more")},
		Sends: []mailroom.Send{{Name: "tell", Thread: "told", Parts: mailroom.Text("it")},
			{Name: "ask", Thread: "asked", Parts: mailroom.Text("what?"), Answer: mailroom.AnswerWait}},
	}}
	settles := map[string]thread.Settle{
		"complete": complete(current(), "done"), "fail": failure(current(), mailroom.ClassPermanent),
		"retry":   failure(current(), mailroom.ClassTransient),
		"release": release(current()), "park": park(current(), nil, approval("more")),
	}
	var all []operation
	for _, name := range []string{"complete", "fail", "retry", "release", "park"} {
		s := settles[name]
		s.Number = 1
		all = append(all, operation{name: "settle " + name, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return status(l.Workers().Settle(ctx, s))
		}})
	}
	return append(all,
		operation{name: "append", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Workers().Append(ctx, step)
		}},
		operation{name: "flush", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil, l.Workers().Flush(ctx, current(), store.Partial{Message: current().Run + ".1-1", Offset: 4, Text: "ar"})
		}},
		operation{name: "steered", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Workers().MarkSteersRead(ctx, current())
		}},
		operation{
			name: "claim", claims: true, doubles: true,
			do: func(ctx context.Context, l *ledger.Ledger) (any, error) { return claimOf(ctx, l, 1) },
			again: func(ctx context.Context, l *ledger.Ledger) (any, error) { // the response is lost, and with it the claims
				if _, err := l.Workers().Renew(ctx, thread.Renewal{Worker: "idle", Round: 1}); err != nil {
					return nil, err
				}
				return claimOf(ctx, l, 2)
			},
		},
		operation{name: "cancel", late: mailroom.CodeConflict, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return status(l.Cancel(ctx, "queued", "ann"))
		}},
		operation{name: "cancel of one that runs", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return status(l.Cancel(ctx, "current", "ann"))
		}},
		operation{name: "cancel tree", late: mailroom.CodeConflict,
			do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
				return status(l.CancelTree(ctx, "parent", ann()))
			}},
		operation{name: "decide", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			k, err := l.Decide(ctx, okayed())
			if err != nil {
				return nil, err
			}
			return k.Decision, nil
		}},
		operation{name: "retry by hand", late: mailroom.CodeConflict,
			do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
				return status(l.Retry(ctx, thread.Retry{Run: "dead", By: "ann"}))
			}},
	)
}

// account returns a request for a token whose secret has the hash sum.
func account(name, sum string) auth.Token {
	return auth.Token{Name: name, Sum: sum, Scopes: []auth.Permission{auth.PermissionRead, auth.PermissionSubmit}}
}

func tokenOperations() []operation {
	create := func(in auth.Token) func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return func(ctx context.Context, l *ledger.Ledger) (any, error) {
			row, err := l.Accounts().CreateToken(ctx, in)
			if err != nil {
				return nil, err
			}
			return []any{row.Name, row.Sum, row.RevokedAt}, nil
		}
	}
	return []operation{
		{name: "create token", do: create(account("amy", "a secret"))},
		{name: "create token again", do: create(account("former", "a new secret"))},
		{name: "revoke token", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil, l.Accounts().RevokeToken(ctx, "bob")
		}},
		{name: "tokens used", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil,
				l.Accounts().RecordTokenUse(ctx, map[string]time.Time{"secret of bob": time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)})
		}},
	}
}

func claimOf(ctx context.Context, l *ledger.Ledger, round int64) (any, error) {
	work, err := l.Workers().Claim(ctx, thread.ClaimRequest{Worker: "idle", Round: round, Slots: 1,
		Agents: map[string]int{"echo": 1}, LastAttempt: true})
	var runs []string
	for _, w := range work {
		runs = append(runs, w.Run.ID)
	}
	return runs, err
}

func threadOperations() []operation {
	nothing := func(f func(ctx context.Context, l *ledger.Ledger) error) func(context.Context,
		*ledger.Ledger) (any, error) {
		return func(ctx context.Context, l *ledger.Ledger) (any, error) { return nil, f(ctx, l) }
	}
	agent, to := "codex", "deliveries"
	version := []store.Definition{{Agent: "echo", Version: "v2", Body: json.RawMessage(`{}`)}}
	return []operation{
		{name: "interrupt", doubles: true, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Interrupt(ctx, "busy", ann())
		}},
		{name: "edit", doubles: true, do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			m, err := l.Edit(ctx, "due", "due.1", mailroom.Text("rather this"))
			return m.Text, err
		}},
		{name: "retract", late: mailroom.CodeConflict, do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			return l.Retract(ctx, "due", "due.1")
		})},
		{name: "patch", doubles: true, do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			_, err := l.PatchThread(ctx, "done", thread.Patch{Agent: &agent, DeliverTo: &to,
				Metadata: json.RawMessage(`{"a": 1}`)})
			return err
		})},
		{name: "open", doubles: true, do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			_, err := ledger.GroupsOf(l).Open(ctx, ledger.Opening{Thread: "group:a", Agent: "echo", Group: "group:",
				Metadata: json.RawMessage(`{"a": 1}`), Admit: admitAll})
			return err
		})},
		{name: "delete", late: mailroom.CodeNotFound, do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			return l.DeleteThread(ctx, "done", nil)
		})},
		{name: "purge", do: nothing(func(ctx context.Context, l *ledger.Ledger) error { return l.Purge(ctx, "old", 0) })},
		{name: "define", do: nothing(func(ctx context.Context, l *ledger.Ledger) error { return l.KeepDefinitions(ctx, version) })},
		{name: "forget", do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			return l.DropDefinitions(ctx, []store.Definition{{Agent: "echo", Version: "v1"}})
		})},
		{name: "register", late: mailroom.CodeConflict, do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			_, err := l.Workers().Register(ctx, store.Worker{ID: "new", Agents: []string{"echo"}})
			return err
		})},
		{name: "renew", do: func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Workers().Renew(ctx, thread.Renewal{Worker: "w", Round: 100}) // it names no claims
		}},
		{name: "leave", do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			return l.Workers().Deregister(ctx, thread.Leave{Worker: "w"})
		})},
		{name: "end local", do: nothing(func(ctx context.Context, l *ledger.Ledger) error { return l.Workers().EndLocalWorkers(ctx, false) })},
		{name: "sweep", do: nothing(func(ctx context.Context, l *ledger.Ledger) error { return l.Workers().Sweep(ctx, "") })},
		{name: "orphans", do: nothing(func(ctx context.Context, l *ledger.Ledger) error {
			return l.Workers().FailOrphans(ctx, []string{"echo"}, time.Minute)
		})},
	}
}
