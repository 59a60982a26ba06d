package ledger_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/ledger"
	"mailroom/store"
)

func TestDroppedDefinitionsAreGone(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	first := store.Definition{Agent: "a", Version: "1", Body: json.RawMessage(`{"n":1}`)}
	second := store.Definition{Agent: "a", Version: "2", Body: json.RawMessage(`{"n":2}`)}
	other := store.Definition{Agent: "b", Version: "1", Body: json.RawMessage(`{"n":3}`)}
	if err := d.KeepDefinitions(d.ctx, []store.Definition{first, second, other}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a repeat has no effect
		if err := d.DropDefinitions(d.ctx, []store.Definition{{Agent: "a", Version: "1"}}); err != nil {
			t.Fatal(err)
		}
		got := must(d.Definitions(d.ctx))(t)
		if diff := cmp.Diff([]store.Definition{second, other}, got); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	}
}
