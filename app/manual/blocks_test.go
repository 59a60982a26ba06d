package manual_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mailroom/app/config"
)

// block is a fenced block of code in a page.
type block struct{ page, language, code string }

var (
	fence      = regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")
	ourCommand = regexp.MustCompile(`^(\$ )?(mailroom|bd|bin/mailroom|bin/bd|export \w+=)`)
	languageOf = regexp.MustCompile(`^\w+$`)
)

// first returns the first line of a block that is no comment of a shell.
func (b block) first() string {
	for line := range strings.Lines(b.code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return strings.TrimSpace(b.code)
}

// blocks returns the blocks of the README and of all pages.
func blocks(t *testing.T) (all []block) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	inner, err2 := filepath.Glob("../../docs/*/*.md")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, name := range append(append(pages, inner...), "../../README.md") {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range fence.FindAllStringSubmatch(string(raw), -1) {
			language, _, _ := strings.Cut(found[1], " ")
			if !languageOf.MatchString(language) {
				language = ""
			}
			all = append(all, block{strings.TrimPrefix(filepath.ToSlash(name), "../../"), language, found[2]})
		}
	}
	return all
}

// fate is a line of blocks.txt: what runs the blocks of a page that begin so, or why nothing does.
type fate struct {
	page, begin, does string
	used              bool
}

func readFates(t *testing.T) (all []*fate) {
	t.Helper()
	raw, err := os.ReadFile("testdata/blocks.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			t.Fatalf("%q is no line of blocks.txt", line)
		}
		all = append(all, &fate{page: parts[0], begin: parts[1], does: parts[2]})
	}
	return all
}

// listed returns what blocks.txt says of a block, "" for nothing.
func listed(fates []*fate, b block) string {
	for _, f := range fates {
		if f.page == b.page && (f.begin == "*" || strings.HasPrefix(b.first(), f.begin)) {
			f.used = true
			return f.does
		}
	}
	return ""
}

// check returns how a block is checked that no line of blocks.txt names, and what is wrong with it.
func (b block) check(t *testing.T) (how string, err error) {
	switch {
	case b.language == "toml":
		_, err := config.Parse("mailroom.toml", []byte(b.code), config.Kinds(), func(string) string { return "" })
		return "parsed as a configuration", err
	case b.language == "json":
		if !json.Valid([]byte(b.code)) {
			return "", fmt.Errorf("it is no JSON")
		}
		return "parsed as JSON", nil
	case b.language == "go" && strings.Contains(b.code, "package main"):
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(b.code), 0o600); err != nil {
			return "", err
		}
		if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return "compiled", nil
	case b.language == "" || b.language == "sh":
		for line := range strings.Lines(b.code) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !ourCommand.MatchString(line) {
				return "", fmt.Errorf("%q is no command that another test checks", line)
			}
		}
		return "commands and flags exist", nil
	}
	return "", fmt.Errorf("no test checks this language")
}

// TestEachBlockOfCodeIsRunOrListedWithAReason prints how many blocks are run, checked and listed.
func TestEachBlockOfCodeIsRunOrListedWithAReason(t *testing.T) {
	fates, counts := readFates(t), map[string]int{}
	var mutex sync.Mutex
	var wait sync.WaitGroup
	all := blocks(t)
	for _, b := range all {
		if does := listed(fates, b); does != "" {
			mutex.Lock()
			counts[does]++
			mutex.Unlock()
			continue
		}
		wait.Go(func() {
			how, err := b.check(t)
			if err != nil {
				t.Errorf("%s: the block that begins with %q: %v. Run it in a test, and name it in "+
					"app/manual/testdata/blocks.txt, or give a reason there", b.page, b.first(), err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			counts["checked: "+how]++
		})
	}
	wait.Wait()
	for _, f := range fates {
		file, runs := strings.CutPrefix(f.does, "run ")
		switch {
		case !f.used:
			t.Errorf("blocks.txt: no block of %s begins with %q", f.page, f.begin)
		case runs:
			raw, err := os.ReadFile("../../" + file)
			base := strings.TrimSuffix(filepath.Base(f.page), ".md")
			if err != nil || !strings.Contains(string(raw), base) {
				t.Errorf("blocks.txt: %s does not name %s (%v)", file, f.page, err)
			}
		case !strings.HasPrefix(f.does, "reason: "):
			t.Errorf("blocks.txt: %q is neither a test nor a reason", f.does)
		}
	}
	sums := map[string]int{}
	for does, n := range counts {
		kind, _, _ := strings.Cut(does, " ")
		sums[strings.TrimSuffix(kind, ":")] += n
		t.Logf("%3d %s", n, does)
	}
	if len(all) < 110 || sums["run"] < 30 {
		t.Errorf("%d blocks, %d of them run: fewer than there were", len(all), sums["run"])
	}
	t.Logf("%d blocks: %d run, %d checked, %d with a reason", len(all), sums["run"], sums["checked"], sums["reason"])
}

func TestABlockThatNothingChecksIsFound(t *testing.T) {
	for _, c := range []struct {
		b    block
		good bool
	}{
		{block{"a.md", "", "mailroom runs\n# why\nbd list\n"}, true},
		{block{"a.md", "", "mailroom runs\ncurl x\n"}, false},
		{block{"a.md", "ruby", "mailroom runs\n"}, false},
		{block{"a.md", "json", "{}\n"}, true},
		{block{"a.md", "json", "{\n"}, false},
		{block{"a.md", "toml", "listen = \"127.0.0.1:0\"\n"}, true},
		{block{"a.md", "toml", "lisen = \"127.0.0.1:0\"\n"}, false},
	} {
		if _, err := c.b.check(t); (err == nil) != c.good {
			t.Errorf("%q: %v", c.b.code, err)
		}
	}
	fates := []*fate{{page: "b.md", begin: "*", does: "run b"}, {page: "a.md", begin: "make", does: "run a"}}
	for code, want := range map[string]string{"# first\nmake it\n": "run a", "it\n": ""} {
		if got := listed(fates, block{"a.md", "", code}); got != want {
			t.Errorf("the line of %q is %q, want %q", code, got, want)
		}
	}
}
