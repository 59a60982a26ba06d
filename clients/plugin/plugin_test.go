package plugin

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func folder(t *testing.T) (string, *Folder) {
	t.Helper()
	dir := t.TempDir()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, f
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(body)
}

func TestOnlyWhatWasWrittenIsReplaced(t *testing.T) {
	first := map[string][]byte{"a/kept": []byte("1"), "a/gone": []byte("1"), "same": []byte("1")}
	second := map[string][]byte{"a/kept": []byte("2"), "same": []byte("1"), "b/new": []byte("2")}
	dir, f := folder(t)
	write(t, dir, "mine", "mine")
	if err := f.Write(first); err != nil {
		t.Fatal(err)
	}
	if names, err := f.Differences(second); err != nil || !slices.Equal(names, []string{"a/gone", "a/kept", "b/new"}) {
		t.Errorf("differences %q, %v", names, err)
	}
	for range 2 { // the second time nothing is left to do
		if err := f.Write(second); err != nil {
			t.Fatal(err)
		}
		if names, err := f.Differences(second); err != nil || len(names) > 0 {
			t.Errorf("differences after a write: %q, %v", names, err)
		}
	}
	for name, want := range map[string]string{"mine": "mine", "a/kept": "2", "a/gone": "", "same": "1", "b/new": "2"} {
		if got := read(t, dir, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	for name, change := range map[string]func(){
		"a/kept": func() { write(t, dir, "a/kept", "changed") },
		"a/gone": func() { write(t, dir, "a/gone", "another program's") },
	} {
		change()
		changed, ok := errors.AsType[*Changed](f.Write(first))
		if !ok || !slices.Contains(changed.Names, name) || read(t, dir, "b/new") != "2" {
			t.Errorf("%s is not as it was written: %v; want it refused, and nothing changed", name, changed)
		}
	}
}

func TestALinkLeadsNowhereElse(t *testing.T) {
	outside := t.TempDir()
	dir, f := folder(t)
	if err := os.Symlink(outside, filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(map[string][]byte{"a/x": []byte("1")}); err == nil || read(t, outside, "x") != "" {
		t.Errorf("a write through a link: %v, want it refused", err)
	}
}

func TestTheManifestsAreWhole(t *testing.T) {
	all, err := Files("1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var market struct {
		Name    string
		Owner   struct{ Name string }
		Plugins []struct{ Name, Source string }
	}
	var plugin struct{ Name, Version string }
	var servers struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	for name, into := range map[string]any{".claude-plugin/marketplace.json": &market,
		"mailroom/.claude-plugin/plugin.json": &plugin, "mailroom/.mcp.json": &servers} {
		if err := json.Unmarshal(all[name], into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if market.Owner.Name == "" || len(market.Plugins) != 1 || market.Plugins[0].Source != "./mailroom" ||
		plugin.Name != "mailroom" || plugin.Version != "1.2.3" ||
		!slices.Equal(servers.MCPServers["inbox"].Args, []string{"mcp", "--own-token"}) {
		t.Errorf("the manifests are %+v, %+v, %+v", market, plugin, servers)
	}
	skill := string(all["mailroom/skills/mailroom/SKILL.md"])
	front := regexp.MustCompile(`\A---\nname: (\S+)\ndescription: (.+)\n---\n`).FindStringSubmatch(skill)
	if front == nil || front[1] != "mailroom" || len(front[2]) > 1024 {
		t.Errorf("the skill begins with %.200q", skill)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(skill, -1) {
		if all["mailroom/skills/mailroom/"+link[1]] == nil {
			t.Errorf("the skill links to %s, which is not there", link[1])
		}
	}
	for name := range all {
		if strings.Contains(name, "__pycache__") {
			t.Errorf("%s is no file of the plugin", name)
		}
	}
}
