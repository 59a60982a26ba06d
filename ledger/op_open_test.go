package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
)

func admitAll([]*mailroom.Thread) error { return nil }

func opening(id string) ledger.Opening {
	return ledger.Opening{Thread: "group:" + id, Agent: "echo", Metadata: json.RawMessage(`{"a":1}`), Group: "group:",
		Admit: admitAll}
}

func TestAThreadIsOpenedBeforeItsFirstMessage(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	row := must(ledger.GroupsOf(d.Ledger).Open(t.Context(), opening("a")))(t)
	wantEqual(t, "opened", []string{row.ID, row.Agent, row.Owner, string(row.Metadata)},
		[]string{"group:a", "echo", auth.Operator, `{"a":1}`})
	wantEqual(t, "stored", d.thread("group:a").Metadata, row.Metadata)

	again := opening("a")
	again.Agent, again.Metadata = "codex", json.RawMessage(`{"a":2}`)
	row = must(ledger.GroupsOf(d.Ledger).Open(t.Context(), again))(t)
	wantEqual(t, "opened again", []string{row.Agent, string(row.Metadata)}, []string{"codex", `{"a":2}`})

	if err := d.DeleteThread(t.Context(), "group:a", nil); err != nil {
		t.Fatal(err)
	}
	must(ledger.GroupsOf(d.Ledger).Open(t.Context(), opening("a")))(t)
}

func TestAnOpeningMayBeRefused(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.submit(text("group:taken", "hello")) // of ann
	refuse := errors.New("no more")
	var seen []string
	for name, e := range map[string]struct {
		change func(*ledger.Opening)
		code   mailroom.Code
	}{
		"admit": {func(o *ledger.Opening) {
			o.Admit = func([]*mailroom.Thread) error { return refuse }
		}, mailroom.CodeInternal},
		"another owner": {func(o *ledger.Opening) { o.Thread = "group:taken" }, mailroom.CodeConflict},
		"no object":     {func(o *ledger.Opening) { o.Metadata = json.RawMessage(`[]`) }, mailroom.CodeInvalid},
		"large metadata": {func(o *ledger.Opening) {
			o.Metadata = json.RawMessage(`"` + strings.Repeat("x", mailroom.MaxMetadata) + `"`)
		}, mailroom.CodeTooLarge},
		"another group":   {func(o *ledger.Opening) { o.Thread = "other:a" }, mailroom.CodeInvalid},
		"no group":        {func(o *ledger.Opening) { o.Group = "" }, mailroom.CodeInvalid},
		"no id":           {func(o *ledger.Opening) { o.Thread = "" }, mailroom.CodeInvalid},
		"an agent of NUL": {func(o *ledger.Opening) { o.Agent = "\x00" }, mailroom.CodeInvalid},
	} {
		o := opening("new")
		e.change(&o)
		_, err := ledger.GroupsOf(d.Ledger).Open(t.Context(), o)
		if err == nil || mailroom.CodeOf(err) != e.code {
			t.Errorf("%s: %v, want %s", name, err, e.code)
		}
	}
	if d.thread("group:new") != nil {
		t.Error("a refused opening created a thread")
	}
	o := opening("new")
	o.Admit = func(others []*mailroom.Thread) error {
		seen = nil
		for _, other := range others {
			seen = append(seen, other.ID)
		}
		return nil
	}
	must(ledger.GroupsOf(d.Ledger).Open(t.Context(), o))(t)
	wantEqual(t, "the others", seen, []string{"group:taken"})
}

// Openings at the same time keep a bound, in one lane and in several.
func TestAGroupIsBounded(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *fixture{
		"memory": func(t *testing.T) *fixture { return open(t, nil, ledger.Options{}) },
		"lanes": func(t *testing.T) *fixture {
			rows := memory.New()
			return open(t, rows, ledger.Options{Lanes: []store.Store{rows, rows}})
		},
		"lanes of a cluster": openLanes,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			var group sync.WaitGroup
			for i := range 40 {
				group.Go(func() {
					o := opening(fmt.Sprint(i))
					o.Admit = func(others []*mailroom.Thread) error {
						if len(others) >= 10 {
							return mailroom.Errorf(mailroom.CodeConflict, "enough")
						}
						return nil
					}
					if _, err := ledger.GroupsOf(d.Ledger).Open(t.Context(), o); err != nil &&
						mailroom.CodeOf(err) != mailroom.CodeConflict {
						t.Error(err)
					}
				})
			}
			group.Wait()
			d.view(func(r store.Reader) error {
				rows, err := r.Threads(store.ThreadQuery{Prefix: "group:"})
				wantEqual(t, "threads", len(rows), 10)
				return err
			})
		})
	}
}

func openLanes(t *testing.T) *fixture {
	t.Helper()
	cluster := pgtest.Shared(t)
	o := postgres.Options{URL: cluster.URL(), Schema: cluster.Schema(t), AllowUnsafe: true}
	handles := make([]store.Store, 2)
	for i := range handles {
		o.Node = fmt.Sprint("lane", i)
		s, err := postgres.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		handles[i] = s
	}
	return open(t, handles[0], ledger.Options{Lanes: handles[1:]})
}
