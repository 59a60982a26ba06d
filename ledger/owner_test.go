package ledger_test

import (
	"strings"
	"testing"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// submitAs returns a submit by the owner of a token.
func submitAs(owner, thread, s string) thread.Submit {
	in := text(thread, s)
	in.Owner, in.Sender, in.By = owner, owner, &auth.Token{Name: owner, Scopes: []auth.Permission{auth.PermissionSubmit}}
	return in
}

func TestASubmitToAnInvisibleThreadIsNotFound(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	first := submitAs("ann", "t", "mine")
	first.Key = "k"
	d.submit(first)
	for _, key := range []string{"", "k"} { // her key does not give another token access
		in := submitAs("bob", "t", "mine")
		in.Key = key
		_, err := d.Submit(d.ctx, in)
		wantCode(t, err, mailroom.CodeNotFound)
	}
	wantEqual(t, "owner", d.thread("t").Owner, "ann")
}

func TestOneOfTwoConcurrentCreatorsOwnsAThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	answers := make(chan error)
	names := []string{"ann", "bob"}
	for _, name := range names {
		go func() {
			_, err := d.Submit(d.ctx, submitAs(name, "t", "me first"))
			answers <- err
		}()
	}
	var codes []mailroom.Code
	for range names {
		codes = append(codes, mailroom.CodeOf(<-answers))
	}
	if codes[0] == codes[1] || codes[0]+codes[1] != mailroom.CodeNotFound {
		t.Errorf("codes %q, want one success and one not_found", codes)
	}
}

func TestOnlyTheOperatorCreatesReservedThreads(t *testing.T) {
	d := open(t, nil, ledger.Options{Reserved: []string{"chat:", "out:chat:"}})
	d.register("w")
	for _, thread := range []string{"chat:ann", "out:chat:ann"} {
		_, err := d.Submit(d.ctx, submitAs("bob", thread, "mine"))
		wantCode(t, err, mailroom.CodeForbidden)
	}
	d.submit(submitAs("bob", "chat", "mine"))
	work := d.claimIn("chat")
	wantCode(t, d.send(work.Claim, mailroom.Send{Name: "spy", Thread: "chat:ann"}), mailroom.CodeForbidden)

	to := "out:chat:ann"
	_, err := d.PatchThread(d.ctx, "chat", thread.Patch{DeliverTo: &to})
	wantCode(t, err, mailroom.CodeForbidden)
	to = "chat:new"
	_, err = d.PatchThread(d.ctx, "chat", thread.Patch{DeliverTo: &to, By: submitAs("bob", "", "").By})
	wantCode(t, err, mailroom.CodeNotFound)
	must(d.PatchThread(d.ctx, "chat", thread.Patch{DeliverTo: &to}))(t)
	d.settle(complete(work.Claim, "unheard"))
	wantEqual(t, "a thread made by a delivery", d.thread(to) == nil, true)

	in := text("chat:ann", "hello") // of the server
	in.Owner = auth.Operator
	d.submit(in)
	_, there := d.Submit(d.ctx, submitAs("bob", "chat:ann", "mine"))
	wantCode(t, there, mailroom.CodeForbidden)
	_, none := d.Submit(d.ctx, submitAs("bob", "chat:eve", "mine"))
	wantEqual(t, "the refusal of a thread that exists", there.Error(), strings.Replace(none.Error(), "eve", "ann", 1))
}

// TestTheServerSendsNothingToAThreadOfItsOwnThatATokenOwns: an older version let a token make it.
func TestTheServerSendsNothingToAThreadOfItsOwnThatATokenOwns(t *testing.T) {
	rows := memory.New()
	d := open(t, rows, ledger.Options{})
	strange := text("alert:phone", "x")
	strange.Owner = "bob"
	_, err := d.Submit(d.ctx, strange)
	wantCode(t, err, mailroom.CodeForbidden)
	first := text("alert:phone", "first")
	first.Owner = auth.Operator
	must(d.Cancel(d.ctx, d.submit(first).Run, "ann"))(t)
	must(struct{}{}, rows.Update(d.ctx, func(tx store.Tx) error {
		_, found, err := storetest.Lock(tx, nil, []string{"alert:phone"})
		if err != nil {
			return err
		}
		found[0].Owner = "bob"
		found[0].Revision++
		return tx.Write(&store.Changes{Threads: found})
	}))(t)
	own := text("alert:phone", "told")
	own.Owner = auth.Operator
	_, err = d.Submit(d.ctx, own)
	wantCode(t, err, mailroom.CodeConflict)
	must(struct{}{}, d.DeleteThread(d.ctx, "alert:phone", nil))(t)
	d.submit(own)
	wantEqual(t, "agent", d.thread("alert:phone").Agent, "alert:phone")
}

// TestAnOwnerDeletesTheThreadOfAPullRequest: each branch has one, and it counts for the quota of its owner.
func TestAnOwnerDeletesTheThreadOfAPullRequest(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(submitAs("bob", "p", "go"))
	work := d.claimIn("p")
	d.mustSend(work.Claim, mailroom.Send{Name: "pull", Agent: reserved.Puller, Parts: mailroom.Text("look")})
	d.mustSend(work.Claim, mailroom.Send{Name: "plan", Agent: reserved.Scheduler, Parts: mailroom.Text("list")})
	d.settle(complete(work.Claim, "yes"))
	bob := auth.RunToken("bob")
	pull, book := reserved.PullsID("bob", "p"), reserved.BookID("bob", "p")
	wantCode(t, d.DeleteThread(d.ctx, pull, bob), mailroom.CodeConflict)
	_, run, _ := thread.SendIDs(mailroom.Send{Name: "pull"}, work.Claim.Run)
	must(d.Cancel(d.ctx, run, "bob"))(t)
	wantCode(t, d.DeleteThread(d.ctx, pull, auth.RunToken("eve")), mailroom.CodeNotFound)
	must(struct{}{}, d.DeleteThread(d.ctx, pull, bob))(t)
	wantCode(t, d.DeleteThread(d.ctx, book, bob), mailroom.CodeForbidden)
}

func TestARunReachesTheThreadsOfItsOwnerOnly(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(submitAs("bob", "private", "hands off"))
	d.settle(complete(d.claimIn("private").Claim, "yes"))
	d.submit(submitAs("ann", "p", "go"))
	work := d.claimIn("p")
	wantCode(t, d.send(work.Claim, mailroom.Send{Name: "spy", Thread: "private"}), mailroom.CodeNotFound)
	d.mustSend(work.Claim, mailroom.Send{Name: "help", Thread: "helper"})
	wantEqual(t, "owner of the thread that a run made", d.thread("helper").Owner, "ann")
	d.settle(complete(work.Claim, "done"))
}

func TestARunOfTheOperatorReachesEveryThreadAndIsAnswered(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(submitAs("bob", "b", "hello"))
	d.settle(complete(d.claimIn("b").Claim, "hi"))
	d.submit(thread.Submit{Thread: "o", Messages: []thread.NewMessage{{Parts: mailroom.Text("go")}}, Sender: "ops"})
	wantEqual(t, "owner", d.thread("o").Owner, auth.Operator)
	work := d.claimIn("o")
	d.mustSend(work.Claim, mailroom.Send{Name: "ask", Thread: "b", Answer: mailroom.AnswerWake})
	d.settle(complete(work.Claim, "sent"))
	d.settle(complete(d.claimIn("b").Claim, "here"))
	answer := d.claimIn("o")
	wantEqual(t, "via", answer.Run.Origin.Via, "wake")
	d.settle(complete(answer.Claim, "thanks"))
}

// A pending delivery does not go to a new thread of the same id.
func TestARecreatedThreadReceivesNothingMeantForTheDeletedOne(t *testing.T) {
	for name, how := range map[string]func(*fixture) mailroom.Claim{
		"the end of a run": func(d *fixture) mailroom.Claim {
			work := d.claimIn("p")
			d.mustSend(work.Claim, mailroom.Send{Name: "help", Thread: "c", Answer: mailroom.AnswerWake})
			d.settle(complete(work.Claim, "sent"))
			return d.claimIn("c").Claim
		},
		"a delivery": func(d *fixture) mailroom.Claim {
			d.settle(complete(d.claimIn("p").Claim, "made"))
			d.submit(submitAs("ann", "c", "go"))
			to := "p"
			must(d.PatchThread(d.ctx, "c", thread.Patch{DeliverTo: &to}))(d.t)
			return d.claimIn("c").Claim
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil, ledger.Options{})
			d.register("w")
			d.submit(submitAs("ann", "p", "go"))
			late := how(d)
			must(0, d.DeleteThread(d.ctx, "p", nil))(t)
			d.submit(submitAs("bob", "p", "mine now"))
			d.settle(complete(d.claimIn("p").Claim, "yes"))
			d.settle(complete(late, "a secret of ann"))
			wantEqual(t, "log of bob's thread", d.kinds("p"), "message, run.queued, run.started, message, run.completed")
		})
	}
}

func TestOnlyTokensOfANamespaceCreateItsThreads(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	for _, in := range []auth.Token{
		{Name: "team", Sum: "1", Namespace: "team-", Scopes: []auth.Permission{auth.PermissionSubmit}},
		{Name: "crew", Sum: "2", Namespace: "project:crew", Scopes: []auth.Permission{auth.PermissionSubmit}},
		{Name: "bob", Sum: "3", Scopes: []auth.Permission{auth.PermissionSubmit}},
	} {
		must(d.Accounts().CreateToken(d.ctx, in))(t)
	}
	_, err := d.Submit(d.ctx, submitAs("bob", "team-1", "mine"))
	wantCode(t, err, mailroom.CodeNotFound)
	wantEqual(t, "the refusal", err.Error(), `no thread "team-1"`)
	d.submit(submitAs("bob", "t", "mine"))
	work := d.claimIn("t")
	wantCode(t, d.send(work.Claim, mailroom.Send{Name: "spy", Thread: "team-1"}), mailroom.CodeNotFound)
	bob := &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionSubmit}}
	in := reserve("a", "src/**")
	in.Project, in.By = "crew", bob
	_, err = d.Projects().Reserve(d.ctx, in)
	wantCode(t, err, mailroom.CodeNotFound)
	_, err = d.Projects().Notify(d.ctx, project.Notify{Project: "crew", By: bob,
		Notification: project.Notification{From: "a", Event: "e"}})
	wantCode(t, err, mailroom.CodeNotFound)
	_, err = d.Projects().Inbox(d.ctx, ledger.InboxQuery{Project: "crew", Agent: "a", By: bob, Limit: 1, Consume: true})
	wantCode(t, err, mailroom.CodeNotFound)
	wantEqual(t, "the project", d.thread("project:crew") == nil, true)
	d.submit(submitAs("team", "team-1", "mine"))
	d.submit(text("team-2", "of the server itself"))
}
