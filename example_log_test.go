package mailroom_test

import (
	"encoding/json"
	"fmt"

	"mailroom"
)

// Everything that happens in a thread is an entry of its log. A reader decodes the bodies of the kinds that
// it knows and skips the others, so that a newer server can add kinds.
func ExampleEntry_Decode() {
	lines := []string{
		`{"thread":"t","seq":1,"kind":"message","run":"r","attempt":0,"at":"2026-03-01T09:00:00Z",` +
			`"body":{"id":"r.1","role":"user","text":"Hello"}}`,
		`{"thread":"t","seq":2,"kind":"x.newer","run":"r","attempt":1,"at":"2026-03-01T09:00:01Z","body":{}}`,
	}
	for _, line := range lines {
		var e mailroom.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			panic(err)
		}
		if e.Kind != "message" {
			fmt.Println(e.Seq, "skipped", e.Kind)
			continue
		}
		var m mailroom.Message
		if err := e.Decode(&m); err != nil {
			panic(err)
		}
		fmt.Println(e.Seq, m.Role, "wrote", m.Text)
	}
	// Output:
	// 1 user wrote Hello
	// 2 skipped x.newer
}

// A message consists of parts. Most have one part with text; others add files and data.
func ExampleText() {
	parts := append(mailroom.Text("What is on this photo?"), mailroom.Part{
		Type: "file", URI: "https://example.org/cat.png", MimeType: "image/png", Name: "cat.png",
	})
	body, err := json.Marshal(parts[0])
	if err != nil {
		panic(err)
	}
	fmt.Println(string(body))
	fmt.Println(len(parts), parts[1].Name)
	// Output:
	// {"type":"text","text":"What is on this photo?"}
	// 2 cat.png
}
