package adapter_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// twoOnOneStore calls f once for each kind of store, with two handles on one store of the kind.
func twoOnOneStore(t *testing.T, f func(t *testing.T, here, there store.Store)) {
	rows := memory.New()
	file := filepath.Join(t.TempDir(), "mail.db")
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	for name, open := range map[string]func() (store.Store, error){
		"memory": func() (store.Store, error) { return rows, nil },
		"sqlite": func() (store.Store, error) { return sqlite.Open(t.Context(), file, sqlite.Options{}) },
		"postgres": func() (store.Store, error) {
			return postgres.Open(t.Context(), postgres.Options{
				URL: cluster.URL(), Schema: schema, AllowUnsafe: true,
				// On a busy machine a transaction is silent for seconds.
				IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var both [2]store.Store
			for i := range both {
				var err error
				if both[i], err = open(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = both[i].Close() }) // the memory is closed twice
			}
			f(t, both[0], both[1])
		})
	}
}

// TestAPairingEndsAtAnotherServer has one server with the channel, and a second one on the same store at which an admin
// approves and revokes. Of each kind of store.
func TestAPairingEndsAtAnotherServer(t *testing.T) {
	twoOnOneStore(t, func(t *testing.T, one, other store.Store) {
		w := newFixture(t)
		w.store = one
		w.start()
		there := ledger.New(other, ledger.Options{})
		runLedger(t, there)
		admin := chat.PairingOperator{Ledger: there, Channel: "tg"}
		approve := func(user string) {
			t.Helper()
			before := len(w.platform.Sent())
			w.platform.SendPrivate(user, "let me in")
			w.platform.Await("a code for "+user, func() bool { return len(w.platform.Sent()) > before })
			sent := w.platform.Sent()
			if _, err := admin.Approve(t.Context(), codeIn(sent[len(sent)-1].Message.Text), false, "ann"); err != nil {
				t.Fatal(err)
			}
			w.awaitText("You have access now.")
		}
		approve("a")
		w.platform.SendPrivate("a", "hold")
		w.awaitHeard(1)
		if err := admin.Revoke(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.platform.SendPrivate("a", "still there?")
		w.platform.AwaitReceived()
		w.agent.release()
		w.awaitSettled()
		if got := texts(w.platform.Sent()); slices.Contains(got, "hold!") {
			t.Errorf("sent to a user whose pairing was revoked: %q", got)
		}
		wantEqual(t, "heard", w.awaitHeard(0), []string{"hold"})

		approve("b")
		w.platform.SendPrivate("b", "at the first account")
		w.awaitHeard(2)
		w.awaitSettled()
		w.stop()
		w.platform.Capabilities.BotID = "bot-2"
		w.start()
		w.platform.SendPrivate("b", "at another account")
		w.platform.AwaitReceived()
		w.awaitSettled()
		w.stop()
		w.platform.Capabilities.BotID = BotID
		w.start()
		w.platform.SendPrivate("b", "at the first one again")
		w.platform.AwaitReceived()
		w.awaitSettled()
		wantEqual(t, "heard of a pairing that ended with its account", w.awaitHeard(0),
			[]string{"hold", "at the first account"})
		people, err := admin.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range people {
			if !p.Waits {
				t.Errorf("the other server lists %s as paired", p.User)
			}
		}
		w.view(func(r store.Reader) error { // what was withheld is no work that waits
			counts, err := r.Count(store.CountQuery{Agent: channel.AgentName("tg"),
				Statuses: []mailroom.Status{mailroom.StatusQueued}})
			wantEqual(t, "deliveries that wait", counts.Sum(), 0)
			return err
		})
	})
}

// runLedger runs the ledger of a server until the end of the test.
func runLedger(t *testing.T, l *ledger.Ledger) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAButtonOfAnUnpairedAdminDecidesNothing has a question in the chat of an admin, whose pairing another server
// revokes before the admin presses its button, and types the command.
func TestAButtonOfAnUnpairedAdminDecidesNothing(t *testing.T) {
	twoOnOneStore(t, func(t *testing.T, one, other store.Store) {
		w := newFixture(t)
		w.store = one
		w.start()
		there := ledger.New(other, ledger.Options{})
		runLedger(t, there)
		admin := chat.PairingOperator{Ledger: there, Channel: "tg"}
		w.platform.SendPrivate("a", "let me in")
		code := codeIn(w.awaitText("pair approve ").Versions[0].Text)
		if _, err := admin.Approve(t.Context(), code, true, "ann"); err != nil {
			t.Fatal(err)
		}
		w.awaitText("You have access now.")
		w.platform.SendPrivate("a", "ask deploy")
		question := w.awaitText("May I deploy?")
		id := w.ticket().ID
		if err := admin.Revoke(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.platform.PressButton("a", question, "Approve")
		w.platform.SendPrivate("a", "/approve "+id)
		w.platform.AwaitReceived()
		if k := w.ticket(); k.State != mailroom.TicketOpen {
			t.Errorf("the question is %s, decided by %q", k.State, k.DecidedBy)
		}
		w.platform.PressButton(boss, question, "Approve") // an admin of the configuration
		w.await("the decision of an admin", func(r store.Reader) bool {
			rows, err := r.Tickets(store.TicketQuery{IDs: []string{id}})
			return err == nil && rows[0].State == mailroom.TicketDecided && rows[0].DecidedBy == "tg:"+boss
		})
	})
}
