package exec

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

// folderSource has the files of one machine.
type folderSource string

func (f folderSource) Path(uri string) (string, bool) {
	name, ok := strings.CutPrefix(uri, "else:")
	return filepath.Join(string(f), name), ok
}

func (f folderSource) Fetch(_ context.Context, uri string) error {
	if uri == "else:gone" {
		return mailroom.Errorf(mailroom.CodeNotFound, "it has expired")
	}
	path, _ := f.Path(uri)
	return os.WriteFile(path, nil, 0o600)
}

// TestASteeredFileHasThePathOfTheServerThatGoesOn passes the checkpoint of an attempt to another machine.
func TestASteeredFileHasThePathOfTheServerThatGoesOn(t *testing.T) {
	here, there := folderSource(t.TempDir()), folderSource(t.TempDir())
	at := func(s FileSource, saved checkpoint) *attempt {
		return &attempt{files: (&agent{options: Options{Source: s}}).localFiles(), saved: saved}
	}
	first := at(here, checkpoint{})
	first.addSteered([]mailroom.Message{{Parts: []mailroom.Part{
		{Type: "file", Name: "a", URI: "else:x"}, {Type: "file", Name: "b", URI: "else:x.png"}, {Type: "file", Name: "c", URI: "else:gone"},
		{Type: "text", Text: "see else:x.txt"},
	}}})
	raw, err := json.Marshal(first.saved)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := readCheckpoint(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, machine := range []folderSource{here, there} {
		a := at(machine, saved)
		got, err := a.files.texts(t.Context(), a.saved.Steered, a.saved.SteeredFiles)
		if err != nil {
			t.Fatal(err)
		}
		path := func(name string) string { return filepath.Join(string(machine), name) }
		want := []string{"file a " + path("x") + "\nfile b " + path("x.png") +
			"\nfile c (not available: it has expired)\nsee " + path("x.txt")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("steered text (-want +got):\n%s", diff)
		}
		if _, err := os.Stat(path("x.png")); err != nil {
			t.Error(err)
		}
	}
}
