package adapter_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/store"
)

// TestAnUnpairedUserGetsNothing revokes a pairing while the agent works for the user, and pairs the user again.
func TestAnUnpairedUserGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.poll = time.Minute
		w.start()
		operator := chat.PairingOperator{Ledger: w.ledger, Channel: "tg"}
		pair := func() {
			t.Helper()
			<-time.After(10 * time.Minute) // in the bubble
			w.platform.SendPrivate("a", "let me in")
			synctest.Wait()
			sent := w.platform.Sent()
			if _, err := operator.Approve(t.Context(), codeIn(sent[len(sent)-1].Message.Text), false, "ann"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		pair()
		w.platform.SendPrivate("a", "hold")
		synctest.Wait()
		if err := operator.Revoke(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		before := len(w.platform.Sent())
		w.agent.release()
		<-time.After(time.Minute) // in the bubble
		if got := texts(w.platform.Sent()[before:]); len(got) != 0 {
			t.Errorf("sent to the chat of an unpaired user: %q", got)
		}
		pair()
		w.platform.SendPrivate("a", "hello")
		<-time.After(time.Minute) // in the bubble
		if got := texts(w.platform.Sent()); got[len(got)-1] != "hello!" {
			t.Errorf("sent in the end: %q, want the answer to a user who was paired again", got)
		}
		w.stop()
	})
}

// The audit log has the approval and the revocation of a pairing, and neither wrong codes nor the right one.
func TestPairingsAreInTheAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start()
		w.platform.SendPrivate("a", "let me in")
		synctest.Wait()
		sent := w.platform.Sent()
		code := codeIn(sent[len(sent)-1].Message.Text)
		operator := chat.PairingOperator{Ledger: w.ledger, Channel: "tg"}
		ctx := ledger.WithCaller(t.Context(), func() ledger.Caller { return ledger.Caller{Name: "ops", Kind: "token"} })
		for _, code := range []string{"WRONG123", code, code} {
			if _, err := operator.Approve(ctx, code, true, "ops"); err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := operator.Revoke(ctx, "a"); err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
				t.Fatal(err)
			}
		}
		var got []string
		err := w.ledger.View(t.Context(), func(r store.Reader) error {
			found, err := r.Entries(store.EntryQuery{Thread: reserved.AuditLog})
			for _, e := range found {
				var a entry.Audit
				if err := e.Decode(&a); err != nil {
					return err
				}
				got = append(got, a.Actor+" "+a.Action+" "+a.Object+" admin="+a.Detail["admin"])
				if strings.Contains(string(e.Raw), code) {
					t.Errorf("the code is in the audit log: %s", e.Raw)
				}
			}
			return err
		})
		want := []string{"ops pairing.approve a admin=true", "ops pairing.revoke a admin="}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		w.stop()
	})
}

// TestPairingsEndWithTheAccountOfTheBot gives a channel another bot, and then the first one again. What an older
// version stored belongs to the account that connects next.
func TestPairingsEndWithTheAccountOfTheBot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.poll = time.Minute
		w.start()
		heard := 0
		says := func(what string, want bool) {
			t.Helper()
			w.platform.SendPrivate("a", what)
			synctest.Wait()
			if want {
				heard++
			}
			if got := w.awaitHeard(0); len(got) != heard {
				t.Errorf("%s: the agent heard %q, want %d messages", what, got, heard)
			}
		}
		connect := func(bot string) {
			w.stop()
			w.platform.Capabilities.BotID = bot
			w.start()
		}
		says("let me in", false)
		sent := w.platform.Sent()
		if _, err := (chat.PairingOperator{Ledger: w.ledger, Channel: "tg"}).Approve(t.Context(),
			codeIn(sent[len(sent)-1].Message.Text), false, "ann"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		says("paired", true)
		connect(BotID)
		says("after a restart", true)
		err := channel.UpdateValue(t.Context(), w.ledger, "tg", "people",
			func(kept json.RawMessage, _ time.Time) (json.RawMessage, error) {
				fields := map[string]any{}
				if err := json.Unmarshal(kept, &fields); err != nil || fields["account"] == nil {
					t.Errorf("the state names no account: %v, %s", err, kept)
				}
				delete(fields, "account")
				return json.Marshal(fields)
			})
		if err != nil {
			t.Fatal(err)
		}
		says("of an older version", true)
		connect(BotID)
		says("adopted", true)
		connect("bot-2")
		says("at another bot", false)
		connect(BotID)
		says("at the first bot again", false)
		w.stop()
	})
}
