package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// go test fails for a package that does not exist, so one that has moved must not stay in a list.
func TestTheMakefileNamesPackagesThatExist(t *testing.T) {
	names := regexp.MustCompile(`(?m)[\s=]\./(\w[\w./-]*\w)`).FindAllStringSubmatch(text(t, "Makefile"), -1)
	if len(names) < 40 {
		t.Errorf("the Makefile names %d packages, fewer than it did", len(names))
	}
	for _, n := range names {
		if info, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(n[1]))); err != nil || !info.IsDir() {
			t.Errorf("the Makefile names ./%s, which is no package", n[1])
		}
	}
}
