package room

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestASavedRoomKeepsItsStoredForm reads and writes rows in the form that servers have stored.
func TestASavedRoomKeepsItsStoredForm(t *testing.T) {
	for _, stored := range []string{
		`{}`,
		`{"gone":{"key":7}}`,
		`{"previews":[{"run":"r","id":"1"}],"asked":[{"ticket":"k","id":"2"}]}`,
	} {
		k, err := Decode(json.RawMessage(stored))
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := json.Marshal(k); err != nil || string(raw) != stored {
			t.Errorf("%s is encoded as %s, %v", stored, raw, err)
		}
	}
	if _, err := Decode(json.RawMessage(`[]`)); err == nil {
		t.Error("a list was decoded, want an error")
	}
}

func TestARoomRemembersItsNewestMessages(t *testing.T) {
	var k Saved
	for i := range 60 {
		k.AddQuestion(Asked{Ticket: fmt.Sprint("k", i), ID: fmt.Sprint("q", i)})
		k.AddPreview(Preview{Run: fmt.Sprint("r", i), ID: fmt.Sprint("p", i)})
	}
	if len(k.Asked) != maxAsked || len(k.Previews) != maxPreviews || k.IsShown("k9") || !k.IsShown("k10") ||
		k.PreviewMessage("r39") != "" || k.PreviewMessage("r40") != "p40" {
		t.Errorf("got %+v", k)
	}
	k.AddQuestion(Asked{Ticket: "k", ID: "p59"}) // it replaces the preview
	if k.PreviewMessage("r59") != "" || !k.IsShown("k") {
		t.Errorf("got %+v", k)
	}
	if k.DropMessage("p59"); k.IsShown("k") {
		t.Errorf("got %+v", k)
	}
}
