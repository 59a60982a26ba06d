package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
)

func TestFilesBecomePartsOfTheMessage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	page, notes := write("page.html", "<p>ünï</p>\n"), write("notes", "")
	in := api.Submit{Text: "Look:"}
	if err := addFiles(&in, []string{page, notes}); err != nil {
		t.Fatal(err)
	}
	want := []mailroom.Part{
		{Type: "text", Text: "Look:"}, {Type: "text", Text: "<p>ünï</p>\n", Name: "page.html",
			MimeType: "text/html; charset=utf-8"}, {Type: "text", Name: "notes"},
	}
	if diff := cmp.Diff(want, in.Parts); diff != "" || in.Text != "" {
		t.Errorf("text %q, parts (-want +got):\n%s", in.Text, diff)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"of bytes":  {write("bytes", "a\x00b"), "is not a text file in UTF-8"},
		"of latin1": {write("latin1", "\xfc"), "is not a text file in UTF-8"},
		"too large": {write("large", strings.Repeat("x", mailroom.MaxText+1)), "is larger than 1048576 bytes"},
		"no file":   {dir, "is a folder; name a regular file"},
	} {
		if err := addFiles(&api.Submit{}, []string{page, tc.path}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
