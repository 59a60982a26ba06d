package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
)

// fileHandles opens a store, and two handles on the files beside it.
func fileHandles(t *testing.T) (s *Store, both [2]*Files) {
	t.Helper()
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	s = openIn(t, schema, "a")
	t.Cleanup(func() { closeStore(t, s) })
	for i := range both {
		var err error
		if both[i], err = NewFiles(Options{URL: cluster.URL(), Schema: schema}); err != nil {
			t.Fatal(err)
		}
	}
	return s, both
}

func saveFile(t *testing.T, f *Files, name string, content []byte) {
	t.Helper()
	if err := f.Save(t.Context(), name, bytes.NewReader(content)); err != nil {
		t.Fatalf("save %s: %v", name, err)
	}
}

func readFile(t *testing.T, f *Files, name string) ([]byte, error) {
	t.Helper()
	file, err := f.Open(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	return io.ReadAll(file)
}

// wantFile checks the content of a file, nil for one that does not exist.
func wantFile(t *testing.T, f *Files, name string, want []byte) {
	t.Helper()
	got, err := readFile(t, f, name)
	if want == nil {
		if mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("file %s: %d bytes and error %v, want it not to be found", name, len(got), err)
		}
		return
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("file %s has %d bytes and error %v, want the %d that were saved", name, len(got), err, len(want))
	}
}

// execFiles changes the tables of files and returns the number of rows.
func execFiles(t *testing.T, s *Store, text string, args ...any) int64 {
	t.Helper()
	done, err := s.writer.conn.Exec(context.Background(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	return done.RowsAffected()
}

func bytesOf(n int) []byte { return bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n] }

func TestAFileIsReadAtEveryHandleAsItWasSaved(t *testing.T) {
	s, both := fileHandles(t)
	for name, size := range map[string]int{"empty": 0, "short": 1, "a piece": filePiece, "more": filePiece + 1,
		"pieces": 2*filePiece - 1} {
		content := bytesOf(size)
		saveFile(t, both[0], name, content)
		wantFile(t, both[1], name, content)
		saveFile(t, both[1], name, content)
		if got, want := execFiles(t, s, "SELECT FROM file_piece JOIN file ON key = file WHERE name = $1",
			name), int64((size+filePiece-1)/filePiece); got != want {
			t.Errorf("%s: saved twice in %d pieces, want %d", name, got, want)
		}
		if err := both[0].Save(t.Context(), name, iotest.ErrReader(errors.New("read"))); err != nil {
			t.Errorf("%s: saved again with error %v, want the content not to be read", name, err)
		}
	}
	wantFile(t, both[1], "other", nil)
}

func TestAFileThatIsSavedInPartIsNotFound(t *testing.T) {
	_, both := fileHandles(t)
	content := bytesOf(3 * filePiece)
	broken := io.MultiReader(bytes.NewReader(content[:2*filePiece+5]), iotest.ErrReader(errors.New("gone")))
	if err := both[0].Save(t.Context(), "f", broken); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v, want that of the reader", err)
	}
	wantFile(t, both[1], "f", nil)
	saveFile(t, both[1], "f", content)
	wantFile(t, both[0], "f", content)
}

func TestTwoHandlesMaySaveTheSameFileAtOnce(t *testing.T) {
	s, both := fileHandles(t)
	content := bytesOf(5*filePiece + 7)
	// Each has stored some pieces before the other one ends.
	var reached, all sync.WaitGroup
	reached.Add(len(both))
	for _, f := range both {
		r := io.MultiReader(bytes.NewReader(content[:3*filePiece]), onRead(func() {
			reached.Done()
			reached.Wait()
		}), bytes.NewReader(content[3*filePiece:]))
		all.Go(func() {
			if err := f.Save(t.Context(), "f", r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantFile(t, both[0], "f", content)
	if files, pieces := execFiles(t, s, "SELECT FROM file"), execFiles(t, s, "SELECT FROM file_piece"); files != 1 ||
		pieces != 6 {
		t.Errorf("%d files with %d pieces, want 1 with 6", files, pieces)
	}
}

// onRead is an empty reader that calls a function.
type onRead func()

func (f onRead) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func TestAMissingOrShortenedPieceIsDetected(t *testing.T) {
	s, both := fileHandles(t)
	content := bytesOf(2*filePiece + 9)
	for text, code := range map[string]mailroom.Code{
		"DELETE FROM file_piece WHERE number = 1":                       mailroom.CodeNotFound,
		"UPDATE file_piece SET body = substr(body, 2) WHERE number = 0": mailroom.CodeInternal,
		"UPDATE file_piece SET body = body || body WHERE number = 2":    mailroom.CodeInternal,
		"UPDATE file SET size = size + 1":                               mailroom.CodeInternal,
		"UPDATE file SET size = size + 1000000000":                      mailroom.CodeInternal,
	} {
		execFiles(t, s, "DELETE FROM file")
		saveFile(t, both[0], "f", content)
		if execFiles(t, s, text) != 1 {
			t.Fatalf("%s: no row", text)
		}
		if got, err := readFile(t, both[1], "f"); mailroom.CodeOf(err) != code {
			t.Errorf("%s: read %d bytes and error %v, want %s", text, len(got), err, code)
		}
	}
}

func TestFilesAreRemovedByAgeUnlessTheyAreSavedAgain(t *testing.T) {
	s, both := fileHandles(t)
	content := bytesOf(filePiece + 1)
	for _, name := range []string{"old", "again", "kept", "young"} {
		saveFile(t, both[0], name, content)
	}
	half := io.MultiReader(bytes.NewReader(content), iotest.ErrReader(errors.New("killed")))
	if err := both[0].Save(t.Context(), "half", half); err == nil {
		t.Error("half a file was saved")
	}
	execFiles(t, s, "UPDATE file SET saved_at = saved_at - 3600000000 WHERE name <> 'young'")
	saveFile(t, both[1], "again", content)
	before := time.Now().Add(-time.Minute)
	if err := both[1].Keep(t.Context(), []string{"kept", "young", "never stored"}, before); err != nil {
		t.Fatal(err)
	}
	if n, err := both[1].RemoveBefore(t.Context(), before); n != 2 || err != nil {
		t.Errorf("removed %d files, %v, want 2", n, err)
	}
	for name, want := range map[string][]byte{"old": nil, "half": nil, "again": content, "kept": content,
		"young": content} {
		wantFile(t, both[0], name, want)
	}
	if got := execFiles(t, s, "SELECT FROM file_piece"); got != 6 {
		t.Errorf("%d pieces are left, want 6", got)
	}
	file, err := both[0].Open(t.Context(), "again")
	if err != nil {
		t.Fatal(err)
	}
	if file.SavedAt.Before(before) || file.Size != int64(len(content)) {
		t.Errorf("file has the time %v and %d bytes, want the last time and %d", file.SavedAt, file.Size, len(content))
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsRemovedWhileItIsSavedMustBeSavedAgain(t *testing.T) {
	s, both := fileHandles(t)
	content := bytesOf(2 * filePiece)
	for name, at := range map[string]int{"before a piece": filePiece, "before the end": len(content)} {
		r := io.MultiReader(bytes.NewReader(content[:at]), onRead(func() {
			execFiles(t, s, "DELETE FROM file WHERE name <> $1", name)
			if n, err := both[1].RemoveBefore(t.Context(), time.Now().Add(time.Minute)); n != 1 || err != nil {
				t.Errorf("%s: removed %d files, %v, want 1", name, n, err)
			}
		}), bytes.NewReader(content[at:]))
		if err := both[0].Save(t.Context(), name, r); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("%s: error %v, want unavailable", name, err)
		}
		wantFile(t, both[1], name, nil)
		saveFile(t, both[0], name, content)
		wantFile(t, both[1], name, content)
	}
}

func TestADatabaseThatIsAwayMakesFilesUnavailable(t *testing.T) {
	f, err := NewFiles(Options{URL: "user=app host=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, openErr := f.Open(t.Context(), "f")
	_, removeErr := f.RemoveBefore(t.Context(), time.Now())
	for doing, err := range map[string]error{"save": f.Save(t.Context(), "f", strings.NewReader("x")), "open": openErr,
		"remove": removeErr} {
		if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("%s: error %v, want unavailable", doing, err)
		}
	}
}
