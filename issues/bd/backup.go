package bd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/internal/setting"
	"mailroom/issues/tracker"
)

// readImport returns the text of a file to import. A folder stands for the file issues.jsonl in it. If files of tables
// are beside that file, it is the backup of a database, and they are part of it: see [tracker.JoinTables].
func readImport(m *Main, path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "issues.jsonl")
	}
	file, err := setting.OpenFile(path)
	if err != nil {
		return "", err
	}
	defer file.Close() // read only: nothing can be lost
	text, err := m.readAll(file, tracker.MaxFile)
	if err != nil || filepath.Base(path) != "issues.jsonl" {
		return text, err
	}
	rows, found, err := readTables(realPath(filepath.Dir(path)))
	if err != nil || !found {
		return text, err
	}
	text, added, left := tracker.JoinTables(text, rows)
	m.out.logf("Read the backup of a database, with %s beside its issues (dependencies, labels, comments)",
		count(added, "row"))
	const most = 5
	for _, row := range left[:min(len(left), most)] {
		m.out.logf("Warning: left out: %s", row)
	}
	if more := len(left) - most; more > 0 {
		m.out.logf("Warning: left out: %s more", number(more))
	}
	return text, nil
}

// readTables reads the files of tables in a folder, which may come with a project.
func readTables(folder string) (rows tracker.Tables, found bool, err error) {
	dir, err := tracker.OpenDir(folder)
	if err != nil {
		return rows, false, err
	}
	defer dir.Close() // read only: nothing can be lost
	for name, into := range map[string]*string{"dependencies.jsonl": &rows.Dependencies, "labels.jsonl": &rows.Labels,
		"comments.jsonl": &rows.Comments} {
		raw, err := dir.Read(name, tracker.MaxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return rows, false, fmt.Errorf("read the backup: %w", err)
		}
		*into, found = string(raw), true
	}
	return rows, found, nil
}
