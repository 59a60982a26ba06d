package main

import (
	"os"
	"path/filepath"
	"testing"
)

// readFile returns the content of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// readExample returns a file of the folder examples.
func readExample(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join("..", "..", "examples", name))
}

// copyExample copies an example to a folder, in which it may write.
func copyExample(t *testing.T, name, to string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !f.Type().IsRegular() || f.Name() == "mailroom.toml" {
			continue
		}
		text := readExample(t, filepath.Join(name, f.Name()))
		if err := os.WriteFile(filepath.Join(to, f.Name()), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
