package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A release adds a store that its server left, and the script released opens it in all later versions.
func TestEachReleasedVersionHasAStoreThatIsOpened(t *testing.T) {
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/released.txtar")
	if err != nil {
		t.Fatal(err)
	}
	versions := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)$`).FindAllStringSubmatch(string(changes), -1)
	if len(versions) == 0 {
		t.Error("CHANGELOG.md has no version")
	}
	for _, v := range versions {
		file := "../../store/sqlite/testdata/released/" + v[1] + ".sql"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("no store of version %s: %v", v[1], err)
		}
		if !strings.Contains("\n"+string(script), "\nload "+file+"\n") {
			t.Errorf("testdata/released.txtar does not open the store of version %s", v[1])
		}
	}
}
