package poll

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestARowCannotNameFilesOfTheServer(t *testing.T) {
	for uri, want := range map[string]int{
		"https://platform.example.org/a.png": 1, "mailroom-file:" + strings.Repeat("a", 64): 0,
		"file:///data/files/aa/" + strings.Repeat("a", 64): 0,
	} {
		raw, err := json.Marshal(uri)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendFile(nil, map[string]json.RawMessage{"uri": raw}); len(got) != want {
			t.Errorf("%s: %v, want %d files", uri, got, want)
		}
	}
}
