package ledger

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// TestARefusalThatChangesAnythingIsDetected refuses after one change of each kind: of rows that are written, and of
// loaded rows, which a later operation of the batch would write. Each test of this package compares both around every
// refusal.
func TestARefusalThatChangesAnythingIsDetected(t *testing.T) {
	row := func(tx *transaction) *thread.State { return tx.rows.thread("a") }
	for name, change := range map[string]func(tx *transaction) error{
		"an entry": func(tx *transaction) error {
			row(tx).AppendEntry("echo", "", "x.note", json.RawMessage(`{}`), tx.now())
			return nil
		},
		"a thread":       func(tx *transaction) error { row(tx).Metadata = json.RawMessage(`{"a":1}`); return nil },
		"a run":          func(tx *transaction) error { row(tx).Run("r").Priority++; return nil },
		"a submit":       func(tx *transaction) error { _, err := tx.submit(message("b", "s"), false); return err },
		"a worker":       func(tx *transaction) error { tx.rows.workers["w"].Dead = true; return nil },
		"the use":        func(tx *transaction) error { tx.changes.countWorkers("ann", 1); return nil },
		"a token":        func(tx *transaction) error { tx.rows.tokensByName["ann"].UsedAt = tx.now(); return nil },
		"a new token":    func(tx *transaction) error { tx.saveToken(&auth.Token{Name: "bob"}); return nil },
		"a pause":        func(tx *transaction) error { tx.putPause(store.Pause{Agent: "echo"}); return nil },
		"a cursor":       func(tx *transaction) error { tx.moveCursor(store.Cursor{Channel: "chat"}); return nil },
		"entries":        func(tx *transaction) error { tx.changes.dropEntries("a", 2); return nil },
		"a whole thread": func(tx *transaction) error { tx.dropThread(row(tx)); return nil },
		"a definition": func(tx *transaction) error {
			tx.changes.keepDefinitions([]store.Definition{{Agent: "echo"}})
			return nil
		},
		"a reservation":   func(tx *transaction) error { return reserve(tx) },
		"another message": func(tx *transaction) error { return row(tx).Edit("r.1", mailroom.Text("edited"), tx.now()) },
	} {
		t.Run(name, func(t *testing.T) {
			if changed := refusedAfter(t, change); len(changed) != 1 || !strings.Contains(changed[0], "operation broken") {
				t.Errorf("the change before the refusal is reported %d times: %q", len(changed), changed)
			}
		})
	}
	if changed := refusedAfter(t, func(*transaction) error { return nil }); len(changed) != 0 {
		t.Errorf("a refusal that changes nothing is reported: %q", changed)
	}
}

func message(to, run string) thread.Submit {
	return thread.Submit{Thread: to, Run: run, Owner: "ann",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}}}
}

func reserve(tx *transaction) error {
	p, err := tx.project("project:p")
	if err == nil {
		_, err = p.Reserve(project.Reserve{
			Project: "p", Holder: "x", By: auth.RunToken("ann"), Names: []string{"a.go"}, TTL: time.Hour,
		}, tx.now())
	}
	return err
}

// refusedAfter refuses an operation after a change of loaded rows, and returns what was reported of it.
func refusedAfter(t *testing.T, change func(tx *transaction) error) (changed []string) {
	t.Helper()
	l := New(memory.New(), Options{})
	var mu sync.Mutex
	CheckRefusals(l, func(s string) {
		mu.Lock()
		defer mu.Unlock()
		changed = append(changed, s)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }() // ends below
	if _, err := l.Submit(ctx, message("a", "r")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Workers().Register(ctx, store.Worker{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accounts().CreateToken(ctx, auth.Token{Name: "ann", Sum: "secret",
		Scopes: auth.Permissions()}); err != nil {
		t.Fatal(err)
	}
	o := op{
		name: "broken", rank: rankPlain, threads: []string{"a", "b", "project:p"}, queues: true, runs: []string{"r"},
		workers: []string{"w"}, tokens: []string{"ann"}, pauses: true,
	}
	_, err := run(ctx, l, o, func(tx *transaction) (struct{}, error) {
		if err := change(tx); err != nil {
			t.Error(err)
		}
		return struct{}{}, mailroom.Errorf(mailroom.CodeConflict, "no")
	})
	if mailroom.CodeOf(err) != mailroom.CodeConflict {
		t.Errorf("the operation ended with %v", err)
	}
	cancel()
	<-ended // what a refused operation has broken may fail the commit
	mu.Lock()
	defer mu.Unlock()
	return changed
}
