package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The walk in the design names files in the order in which to read them.
func TestTheFilesThatTheDesignNamesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	raw, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/_]+\\.(?:go|js))`").FindAllStringSubmatch(string(raw), -1)
	if len(named) < 15 {
		t.Errorf("the design names %d files, want those of its walk", len(named))
	}
	for _, n := range named {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(n[1]))); err != nil {
			t.Errorf("docs/design.md: %v", err)
		}
	}
}
