package chat

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
)

func TestFilesAreHandedOnAsFarAsTheyCanBe(t *testing.T) {
	holds := func(s string) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	}
	fails := func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no") }
	for name, tc := range map[string]struct {
		file File
		want mailroom.Part
	}{
		"text":                    {File{Name: "a.md", Size: 2, Open: holds("hi")}, mailroom.Text("File a.md:\nhi")[0]},
		"text of unknown size":    {File{Name: "a", MimeType: "text/plain; charset=utf-8", Size: -1, Open: holds("hi")}, mailroom.Text("File a:\nhi")[0]},
		"a picture":               {File{Name: "a.png", MimeType: "image/png", Size: 2, URI: "x:1", Open: holds("hi")}, mailroom.Part{Type: "file", URI: "x:1", MimeType: "image/png", Name: "a.png"}},
		"a picture nowhere":       {File{MimeType: "image/png", Size: 2}, mailroom.Text("(a file unnamed was sent, which is not here: it is no text)")[0]},
		"text that is too large":  {File{Name: "a.md", Size: 11, URI: "x:1", Open: holds("hi")}, mailroom.Part{Type: "file", URI: "x:1", Name: "a.md"}},
		"larger than it says":     {File{Name: "a.md", Size: 1, Open: holds("12345678901")}, mailroom.Text("(a file a.md was sent, which is not here: it has more than 10 bytes)")[0]},
		"text that is none":       {File{Name: "a.md", Size: 1, Open: holds("\xff")}, mailroom.Text("(a file a.md was sent, which is not here: it is no text)")[0]},
		"what cannot be fetched":  {File{Name: "a\n.md", Size: 1, Open: fails}, mailroom.Text("(a file a.md was sent, which is not here: it could not be fetched)")[0]},
		"what is not handed out":  {File{Name: "a.md", Size: 1}, mailroom.Text("(a file a.md was sent, which is not here: the platform does not hand it out)")[0]},
		"an address with a break": {File{Name: "a.zip", Size: 1, URI: "x:\x00\xff"}, mailroom.Part{Type: "file", URI: "x:\ufffd", Name: "a.zip"}},
	} {
		got := parts(t.Context(), "words", []File{tc.file}, 10)
		if diff := cmp.Diff([]mailroom.Part{mailroom.Text("words")[0], tc.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	many := parts(t.Context(), " ", make([]File, mostFiles+2), 0)
	if len(many) != mostFiles+1 || many[mostFiles].Text != "(2 more files are left out)" {
		t.Errorf("of many files: %+v", many)
	}
}
