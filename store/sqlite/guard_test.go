package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/store"
)

// crashed copies the files of an open store, as a kill of its process would leave them, and returns
// the path of the copy.
func crashed(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	for _, suffix := range []string{"", "-wal", RevisionSuffix} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// change rewrites a file.
func change(t *testing.T, path string, f func(raw []byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(raw), 0o600); err != nil {
		t.Fatal(err)
	}
}

// guarded returns an open store with a number of commits.
func guarded(t *testing.T, commits int) (s *Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mail.db")
	s = openAt(t, path, Options{Guard: true})
	for i := range commits {
		mustPut(t, s, fmt.Sprint("thread ", i))
	}
	return s, path
}

func mustOpenFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestCommitsThatTheWALLostAreDetected(t *testing.T) {
	_, path := guarded(t, 40)
	for name, damage := range map[string]func(t *testing.T, path string){
		"a changed byte": func(t *testing.T, path string) {
			change(t, path+"-wal", func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw })
		},
		"a cut end": func(t *testing.T, path string) {
			change(t, path+"-wal", func(raw []byte) []byte { return raw[:len(raw)-1] })
		},
		"emptied": func(t *testing.T, path string) {
			change(t, path+"-wal", func([]byte) []byte { return nil })
		},
		"removed": func(t *testing.T, path string) {
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := crashed(t, path)
			//
			damage(t, path)
			_, err := Open(t.Context(), path, Options{Guard: true})
			lost, ok := errors.AsType[*LostCommitsError](err)
			if !ok || lost.Want != 40 || lost.Have >= 40 {
				t.Errorf("error %v, want missing commits", err)
			}
		})
	}
}

// Without its revision file nothing tells whether the WAL of a killed process is there, and whole.
func TestACrashedStoreWithoutItsRevisionFileIsRefused(t *testing.T) {
	_, path := guarded(t, 40)
	for name, gone := range map[string][]string{
		"the revision file":             {RevisionSuffix},
		"the revision file and the WAL": {RevisionSuffix, "-wal"},
	} {
		t.Run(name, func(t *testing.T) {
			path := crashed(t, path)
			for _, suffix := range gone {
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			for try := range 2 { // a refused start is no way around the refusal
				_, err := Open(t.Context(), path, Options{Guard: true})
				if lost, ok := errors.AsType[*LostCommitsError](err); !ok || lost.Want != 0 {
					t.Errorf("try %d: error %v, want commits that may be lost", try, err)
				}
			}
			f := mustOpenFile(t, path)
			if commits, lost, err := f.Commits(t.Context()); lost == nil || err != nil {
				t.Errorf("a check of the file: %v, %v, want commits that may be lost", lost, err)
			} else if err := WriteRevision(path, Revision{Commits: commits}); err != nil { // as after accepting the loss
				t.Fatal(err)
			}
			openAt(t, path, Options{Guard: true})
		})
	}
}

func TestAClosedStoreNeedsNoRevisionFile(t *testing.T) {
	s, path := guarded(t, 5)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path + RevisionSuffix); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, path, Options{Guard: true})
		if got := count(t, s); got != 5 {
			t.Errorf("got %d threads, want 5", got)
		}
	}
}

// Its next start must be checked if the other process is killed.
func TestAStoreThatAnotherHandleHasOpenIsNotClosed(t *testing.T) {
	s, path := guarded(t, 3)
	other := openAt(t, path, Options{Guard: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if last, known, err := ReadRevision(path); !known || err != nil || last.Closed {
		t.Errorf("while another handle is open: %+v, %t, %v, want an open store", last, known, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if last, known, err := ReadRevision(path); !known || err != nil || !last.Closed {
		t.Errorf("after the last handle: %+v, %t, %v, want a closed store", last, known, err)
	}
}

func TestABackupOfAnOpenStoreNeedsNoRevisionFile(t *testing.T) {
	_, path := guarded(t, 5)
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := mustOpenFile(t, path).Backup(t.Context(), to, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := count(t, openAt(t, to, Options{Guard: true})); got != 5 {
		t.Errorf("got %d threads, want 5", got)
	}
}

func TestARevisionFileThatWasRemovedIsMadeAgain(t *testing.T) {
	s, path := guarded(t, 3)
	if err := os.Remove(path + RevisionSuffix); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "late")
	if last, known, err := ReadRevision(path); !known || err != nil || last.Commits != 4 {
		t.Errorf("got %+v, %t, %v, want 4 commits", last, known, err)
	}
	if got := count(t, openAt(t, crashed(t, path), Options{Guard: true})); got != 4 {
		t.Errorf("after a crash: got %d threads, want 4", got)
	}
}

func TestAStoreWhoseProcessWasKilledOpensWithAllItsCommits(t *testing.T) {
	_, path := guarded(t, 40)
	again := openAt(t, crashed(t, path), Options{Guard: true})
	if got := count(t, again); got != 40 {
		t.Errorf("got %d threads, want 40", got)
	}
}

func TestATornRecordOfTheRevisionFileIsIgnored(t *testing.T) {
	t.Parallel()
	_, path := guarded(t, 7)
	whole, known, err := ReadRevision(path)
	if err != nil || !known || whole.Commits != 7 || whole.Closed {
		t.Fatalf("got %+v, %t, %v, want 7 commits of an open store", whole, known, err)
	}
	var left []int64
	for at := range recordCount * recordSize { // also bytes that leave a number in their place
		path := crashed(t, path)
		change(t, path+RevisionSuffix, func(raw []byte) []byte { raw[at] ^= 2; return raw })
		got, known, err := ReadRevision(path)
		if err != nil || !known {
			t.Errorf("byte %d changed: got %+v, %t, %v", at, got, known, err)
		}
		left = append(left, got.Commits)
	}
	if slices.Sort(left); !slices.Equal(slices.Compact(left), []int64{6, 7}) {
		t.Errorf("commits %v, want those of the last two records", slices.Compact(left))
	}
}

func TestAnEmptyRevisionFileIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	if _, known, err := ReadRevision(path); known || err != nil {
		t.Errorf("none: got %t, %v", known, err)
	}
	if err := os.WriteFile(path+RevisionSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, known, err := ReadRevision(path); known || err != nil {
		t.Errorf("an empty one: got %t, %v", known, err)
	}
	want := Revision{Commits: 12, Closed: true, Size: 4096, Modified: 17}
	if err := WriteRevision(path, want); err != nil {
		t.Fatal(err)
	}
	if got, known, err := ReadRevision(path); got != want || !known || err != nil {
		t.Errorf("got %+v, %t, %v, want %+v", got, known, err, want)
	}
}

func FuzzRevisionRecord(f *testing.F) {
	f.Add(string(appendRecord(nil, Revision{Commits: 3, Closed: true, Size: 8192, Modified: 1_700_000_000_000_000_000},
		9)))
	f.Add(strings.Repeat(" ", recordSize))
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) != recordSize {
			return
		}
		last, serial, ok := parseRecord(line)
		if !ok {
			return
		}
		again, s, ok := parseRecord(string(appendRecord(nil, last, serial)))
		if !ok || again != last || s != serial {
			t.Errorf("%+v %d reads back as %+v %d", last, serial, again, s)
		}
	})
}

func TestAStoreWhoseFilesAreGoneAcknowledgesNothing(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		for _, how := range []string{"removed", "replaced"} {
			t.Run(suffix+" "+how, func(t *testing.T) {
				s, path := guarded(t, 3)
				if err := os.Remove(path + suffix); err != nil {
					t.Fatal(err)
				}
				if how == "replaced" {
					if err := os.WriteFile(path+suffix, []byte("another"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				err := put(t, s, "late")
				wantUnavailable(t, err)
				if !errors.Is(err, store.ErrClosed) || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), how) {
					t.Errorf("error %v, want a closed store because a file was %s", errors.Unwrap(err), how)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if how == "replaced" {
					if raw, err := os.ReadFile(path + suffix); err != nil || string(raw) != "another" {
						t.Errorf("the replacement holds %q, %v after the store was closed", raw, err)
					}
				}
			})
		}
	}
}

// Such as the answer to a submit that repeats an earlier one.
func TestAStoreWhoseFilesAreGoneRefusesAnUpdateThatWritesNothing(t *testing.T) {
	s, path := guarded(t, 3)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	err := s.Update(t.Context(), func(tx store.Tx) error {
		_, err := tx.Threads(store.ThreadQuery{Limit: 1})
		return err
	})
	wantUnavailable(t, err)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnIdleStoreReportsThatItsFileWasRemoved(t *testing.T) {
	t.Parallel()
	s, path := guarded(t, 1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := <-s.Failed(); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("error %v, want a removed file", err)
	}
}

func TestAnUnfinishedCheckIsRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{Guard: true})
	mustPut(t, s, "t")
	s.unchecked = true // as during the check of a large file
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if last, _, err := ReadRevision(path); err != nil || last.Closed {
		t.Errorf("got %+v, %v, want a store that counts as not closed in order", last, err)
	}
}

// A row whose index entry differs is found by one query and not by another one, so a key could be taken twice.
func TestAStoreWithADamagedIndexIsRefused(t *testing.T) {
	s, path := guarded(t, 50)
	const id = "thread 31"
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for at := bytes.Index(raw, []byte(id)); at >= 0; {
		to := filepath.Join(t.TempDir(), "mail.db")
		changed := bytes.Clone(raw)
		changed[at+len(id)-1] = 'x'
		if err := os.WriteFile(to, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		f := mustOpenFile(t, to)
		faults, err := f.Faults(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(faults) > 0 && strings.Contains(faults[0], "missing from index") {
			damaged++
			if _, err := Open(t.Context(), to, Options{Guard: true}); err == nil ||
				!strings.Contains(err.Error(), "missing from index") {
				t.Errorf("byte %d: error %v, want a damaged index", at, err)
			}
		}
		next := bytes.Index(raw[at+1:], []byte(id))
		if next < 0 {
			break
		}
		at += 1 + next
	}
	if damaged == 0 {
		t.Error("no byte is in an index: look for another id")
	}
}

// A copy tool keeps the time of a file that it did not copy completely.
func TestAFileThatWasCutWhileItWasClosedIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{Guard: true})
	for i := range 200 {
		mustPut(t, s, fmt.Sprint(i, strings.Repeat("long ", 30)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	change(t, path, func(raw []byte) []byte { return raw[:len(raw)-pageSize] })
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path, Options{Guard: true}); err == nil {
		t.Errorf("it was opened: %v", s.Close())
	}
}

func TestADamagedFileIsRefusedUnlessItWasClosedCleanly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{Guard: true})
	for i := range 200 {
		mustPut(t, s, fmt.Sprint(i, strings.Repeat("long ", 30)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last, known, err := ReadRevision(path)
	if err != nil || !known || !last.Closed || last.Commits != 200 {
		t.Fatalf("got %+v, %t, %v, want a store that was closed in order", last, known, err)
	}
	change(t, path, func(raw []byte) []byte { // the header of a page that Open does not read
		copy(raw[len(raw)-pageSize:], "\xff\xff\xff\xff\xff\xff\xff\xff")
		return raw
	})
	_, err = Open(t.Context(), path, Options{Guard: true})
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v, want a damaged store", err)
	}
}
