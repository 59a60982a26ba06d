package inbound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel/chat"
)

// memoryFiles is a FileStore in memory, by name.
type memoryFiles map[string]string

func (s memoryFiles) Save(_ context.Context, name string, r io.Reader) (string, error) {
	raw, err := io.ReadAll(r)
	if err == nil {
		s[name] = string(raw)
	}
	return "kept:" + name, err
}

func contentOf(s string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func TestFilesBecomeMessageParts(t *testing.T) {
	fails := func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no") }
	picture := chat.File{Name: "a.png", MimeType: "image/png", Size: 2, URI: "x:1", Open: contentOf("hi")}
	long := strings.Repeat("x", maxTextFile+1)
	note := func(s string) mailroom.Part { return mailroom.Text(s)[0] }
	for name, tc := range map[string]struct {
		file     chat.File
		want     mailroom.Part // with a store for files of up to 100 KiB
		unlessIt mailroom.Part // without a store; blank: the same
	}{
		"text": {chat.File{Name: "a.md", Size: 2, Open: contentOf("hi")}, note("File a.md:\nhi"),
			mailroom.Part{}},
		"text of unknown size": {chat.File{Name: "a", MimeType: "text/plain; charset=utf-8", Size: -1,
			Open: contentOf("hi")}, note("File a:\nhi"), mailroom.Part{}},
		"a picture": {picture, mailroom.Part{Type: "file", URI: "kept:a.png", MimeType: "image/png",
			Name: "a.png"}, mailroom.Part{Type: "file", URI: "x:1", MimeType: "image/png", Name: "a.png"}},
		"a picture nowhere": {chat.File{MimeType: "image/png", Size: 2},
			note("(file unnamed is not available: the platform offers no download)"),
			note("(file unnamed is not available: not a text file)")},
		"a long text": {chat.File{Name: "a.md", Size: int64(len(long)), URI: "x:1", Open: contentOf(long)},
			mailroom.Part{Type: "file", URI: "kept:a.md", Name: "a.md"}, mailroom.Part{Type: "file", URI: "x:1", Name: "a.md"}},
		"a text longer than said": {chat.File{Name: "a.md", Size: 1, Open: contentOf(long)},
			mailroom.Part{Type: "file", URI: "kept:a.md", Name: "a.md"},
			note("(file a.md is not available: more than 65536 bytes)")},
		"invalid text": {chat.File{Name: "a.md", Size: 1, Open: contentOf("\xff")},
			mailroom.Part{Type: "file", URI: "kept:a.md", Name: "a.md"}, note("(file a.md is not available: not a text file)")},
		"too large": {chat.File{Name: "a.zip", Size: 101 << 10, URI: "x:1", Open: contentOf("hi")},
			mailroom.Part{Type: "file", URI: "x:1", Name: "a.zip"}, mailroom.Part{}},
		"too large, and nowhere": {chat.File{Name: "a.zip", Size: 101 << 10, Open: contentOf("hi")},
			note("(file a.zip is not available: 103424 bytes; the limit is 102400)"),
			note("(file a.zip is not available: not a text file)")},
		"larger than its size": {chat.File{Name: "a.zip", Size: 1, Open: contentOf(strings.Repeat("x", 101<<10))},
			note("(file a.zip is not available: more than 102400 bytes)"),
			note("(file a.zip is not available: not a text file)")},
		"a failing download": {chat.File{Name: "a\n.md", Size: 1, Open: fails},
			note("(file a .md is not available: download failed)"), mailroom.Part{}},
		"without a download": {chat.File{Name: "a.md", Size: 1},
			note("(file a.md is not available: the platform offers no download)"), mailroom.Part{}},
		"an address of the server": {chat.File{Name: "a.zip", Size: 1, URI: "mailroom-file:" + strings.Repeat("a", 64)},
			note("(file a.zip is not available: the platform offers no download)"),
			note("(file a.zip is not available: not a text file)")},
		"an address with a break": {chat.File{Name: "a.zip", Size: 1, URI: "x:\x00\xff"},
			mailroom.Part{Type: "file", URI: "x:\ufffd", Name: "a.zip"}, mailroom.Part{}},
	} {
		if tc.unlessIt.Type == "" {
			tc.unlessIt = tc.want
		}
		for _, at := range []struct {
			attachments
			want mailroom.Part
		}{{attachments{memoryFiles{}, 100 << 10}, tc.want}, {attachments{}, tc.unlessIt}} {
			got := at.parts(t.Context(), "words", []chat.File{tc.file})
			if diff := cmp.Diff([]mailroom.Part{note("words"), at.want}, got); diff != "" {
				t.Errorf("%s, kept %v (-want +got):\n%s", name, at.store != nil, diff)
			}
		}
	}
	many := attachments{}.parts(t.Context(), " ", make([]chat.File, maxFiles+2))
	if len(many) != maxFiles+1 || many[maxFiles].Text != "(2 more files are left out)" {
		t.Errorf("parts of many files: %+v", many)
	}
}

// TestHangingFilesTimeOut has two downloads that never end, and one that does.
func TestHangingFilesTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
			return r, nil
		}
		kept := memoryFiles{}
		files := []chat.File{{Name: "a.png", URI: "x:1", Open: contentOf("whole")}, {Name: "b.png", URI: "x:2", Open: hangs},
			{Name: "c.md", URI: "x:3", Open: hangs}}
		got := attachments{kept, 0}.parts(t.Context(), "words", files)
		var where []string
		for _, p := range got {
			where = append(where, p.Text+p.URI)
		}
		if diff := cmp.Diff([]string{"words", "kept:a.png", "x:2", "x:3"}, where); diff != "" || kept["a.png"] != "whole" {
			t.Errorf("parts (-want +got):\n%s\nkept: %v", diff, kept)
		}
	})
}

func TestAFileOfTheMaximumSizeIsStored(t *testing.T) {
	for size, want := range map[int]string{10: "kept:a", 11: "x:1"} {
		f := chat.File{Name: "a", Size: -1, URI: "x:1", Open: contentOf(string(bytes.Repeat([]byte("x"), size)))}
		if got := (attachments{memoryFiles{}, 10}).parts(t.Context(), "", []chat.File{f}); got[0].URI != want {
			t.Errorf("a file of %d bytes is at %s", size, got[0].URI)
		}
	}
}
