package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../.."

// TestEachMutantChangesTheSourceAndNamesATest finds mutants that a change of the tree has left behind.
func TestEachMutantChangesTheSourceAndNamesATest(t *testing.T) {
	name := regexp.MustCompile(`^\^?(\w+)`)
	for _, m := range mutants() {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err != nil {
			t.Errorf("%s: %v", m.breaks, err)
		} else if n := strings.Count(string(source), m.old); n != 1 || m.new == m.old {
			t.Errorf("%s: %q occurs %d times in %s, want once", m.breaks, m.old, n, m.file)
		}
		found := false
		tests, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(m.pkg), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tests {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			function := name.FindStringSubmatch(m.test)
			found = found || function != nil && strings.Contains(string(text), "\nfunc "+function[1])
		}
		if !found {
			t.Errorf("%s: no test %s in %s", m.breaks, m.test, m.pkg)
		}
	}
}
