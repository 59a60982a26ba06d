package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mailroom/api"
	"mailroom/channel/platformtest"
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

// copyExample copies an example to a folder in which it may write, without its configuration and what it wrote by hand.
func copyExample(t *testing.T, name, to string) {
	t.Helper()
	from := filepath.Join("..", "..", "examples", name)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir() && slices.Contains([]string{"mail", "published", "work", "node_modules", "__pycache__"}, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case d.Name() == "mailroom.toml" || d.Name() == "todo.db" || d.Name() == "pause":
			return nil
		}
		return os.WriteFile(at, []byte(readFile(t, path)), 0o700)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitWorker waits until a process has registered as a worker.
func (h *fixture) waitWorker(w *process) {
	h.t.Helper()
	platformtest.WaitFor(h.t, "a worker", func() bool {
		select {
		case <-w.exited:
			h.t.Fatalf("the worker has ended: %v", w.exit)
		default:
		}
		workers, err := h.client().Workers(h.t.Context())
		return err == nil && slices.ContainsFunc(workers, func(one api.Worker) bool {
			return one.PID == w.cmd.Process.Pid
		})
	})
}
