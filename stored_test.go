package mailroom_test

import (
	"encoding/json"
	"testing"

	"mailroom"
)

// Rows of runs and digests of steps contain these names, so they outlive a rename
// of the Go fields.
func TestTheStoredNamesOfFieldsStay(t *testing.T) {
	for _, c := range []struct {
		value any
		names []string
	}{
		{mailroom.Run{Scheduled: true, NoRetry: true}, []string{"Held", "Once"}},
		{mailroom.Step{NoProgress: true, Internal: true}, []string{"Record", "Aside"}},
	} {
		raw, err := json.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.names {
			if got[name] != true {
				t.Errorf("%T: %s is %v in %s", c.value, name, got[name], raw)
			}
		}
	}
}
