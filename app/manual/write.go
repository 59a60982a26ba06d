package manual

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Written says what [Manual.Write] wrote.
type Written struct {
	Pages, Files int
	Bytes        int64
}

// Write writes the manual as plain files into a folder, which may exist. All links are relative, so that the files can
// be opened without a server, or served below any path.
func (m *Manual) Write(dir string) (out Written, err error) {
	files := m.files()
	maps.Copy(files, m.maps(""))
	maps.Copy(files, m.options.API)
	for name := range files {
		if filepath.Ext(name) == ".html" {
			out.Pages++
		}
	}
	shots := map[string]bool{}
	for _, name := range m.paths() {
		s, err := m.pages[name].shown()
		if err != nil {
			return out, err
		}
		for _, shot := range s.shots {
			shots[shot] = true
		}
	}
	for shot := range shots {
		files[shotsFolder+shot] = func() ([]byte, error) { return fs.ReadFile(m.options.Shots, shot) }
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body, err := files[name]()
		if err != nil {
			return out, err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return out, fmt.Errorf("write the manual: %w", err)
		}
		if err := os.WriteFile(to, body, 0o644); err != nil {
			return out, fmt.Errorf("write the manual: %w", err)
		}
		out.Files++
		out.Bytes += int64(len(body))
	}
	return out, nil
}
