package sqlite

import (
	"path/filepath"
	"testing"

	"mailroom/store"
)

func orderOf(t *testing.T, s *Store) (all store.AllEntries) {
	t.Helper()
	all.None = true
	err := s.View(t.Context(), func(r store.Reader) error {
		_, err := r.Entries(store.EntryQuery{All: &all})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A copy continues at an earlier commit, so its positions are not those of the original.
func TestABackupHasAnOrderOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "mail.db"), filepath.Join(dir, "copy.db")
	s := openAt(t, path, Options{})
	mustPut(t, s, "a")
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Backup(t.Context(), target, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	original, copied := orderOf(t, s), orderOf(t, openAt(t, target, Options{}))
	if original.Order == copied.Order || len(copied.Order) != len(original.Order) || original.End != copied.End {
		t.Errorf("got the order %q, end %v in the copy of %q, %v; want another order with the same end", copied.Order,
			copied.End, original.Order, original.End)
	}
}

func TestMigratedEntriesHavePositions(t *testing.T) {
	s := openAt(t, version7(t), Options{})
	all := store.AllEntries{}
	entries := 0
	err := s.View(t.Context(), func(r store.Reader) error {
		found, err := r.Entries(store.EntryQuery{All: &all})
		if err != nil {
			return err
		}
		rows, err := r.Threads(store.ThreadQuery{})
		for _, row := range rows {
			entries += int(row.LastSeq - row.FirstSeq + 1)
		}
		if len(found) != entries || entries == 0 {
			t.Errorf("got %d entries with positions, want %d", len(found), entries)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	last := all.Positions[len(all.Positions)-1]
	if all.Order == "" || all.End != store.StartOf(last.Commit+1) {
		t.Errorf("the order %q ends at %v, want a name, and the end after %v", all.Order, all.End, last)
	}
}
