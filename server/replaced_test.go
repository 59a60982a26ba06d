package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"testing"

	"mailroom/alert/target"
	"mailroom/alert/webpush"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// TestABrowserOfTheOperatorEndsWithItsToken restarts a server with other tokens. One of the subscriptions is as an
// older version made it: it names no token, and is of the one that the next start has.
func TestABrowserOfTheOperatorEndsWithItsToken(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		rows := open(t)
		f := startPushOn(t, rows, token)
		f.subscribe("named")
		old := "alert:browsers:push:" + f.subscribe("old")
		f.forgetToken(old)
		f.wantGone(map[string]bool{"named": false, "old": false})

		f = f.restart(rows, "second-token")
		f.subscribe("second")
		f.wantGone(map[string]bool{"named": true, "old": false, "second": false})

		f = f.restart(rows, "third-token")
		f.wantGone(map[string]bool{"named": true, "old": true, "second": true})
	})
}

// startPushOn is startPush with a store and an operator's token.
func startPushOn(t *testing.T, rows store.Store, secret string) *fixture {
	t.Helper()
	key := webpush.NewKey()
	to, err := target.OpenPush(target.PushOptions{Name: "browsers", Contact: "mailto:ops@example.org",
		Key: func() (string, error) {
			return key, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	f := startStore(t, rows, func(ln net.Listener) net.Listener { return ln }, func(o *server.Options) {
		o.Parts.Alerts, o.Access.Token = &operate.Alerts{Push: to}, secret
	})
	f.secret, f.client = secret, client.New(f.url, secret)
	return f
}

// restart stops the server and starts another one on its store.
func (f *fixture) restart(rows store.Store, secret string) *fixture {
	f.t.Helper()
	f.stop()
	f.served <- <-f.served // the cleanup reads it too
	return startPushOn(f.t, rows, secret)
}

// forgetToken makes the subscription of the operator in a thread one of an older version.
func (f *fixture) forgetToken(id string) {
	f.t.Helper()
	for _, row := range f.subscribers() {
		fields := map[string]any{}
		if err := json.Unmarshal(row.Metadata, &fields); err != nil {
			f.t.Fatal(err)
		}
		if row.ID != id {
			continue
		}
		delete(fields, "token")
		metadata, err := json.Marshal(fields)
		if err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.ledger.PatchThread(f.t.Context(), id, thread.Patch{Metadata: metadata}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// wantGone compares which browsers of the operator get no further alerts.
func (f *fixture) wantGone(want map[string]bool) {
	f.t.Helper()
	shown, err := f.client.Accounts().Push(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	gone := map[string]bool{}
	for _, s := range shown.Subscriptions {
		if s.By != auth.Operator {
			f.t.Errorf("%s subscribed", s.By)
		}
		gone[s.ID] = s.Gone
	}
	for name, want := range want {
		if got, known := gone[subscriptionID(name)]; !known || got != want {
			f.t.Errorf("browser %s is gone: got %v (listed: %v), want %v", name, got, known, want)
		}
	}
}

// subscriptionID returns the id of a browser of newBrowser, as the API documents it.
func subscriptionID(name string) string {
	sum := sha256.Sum256([]byte(newBrowser(name).Endpoint))
	return hex.EncodeToString(sum[:16])
}
