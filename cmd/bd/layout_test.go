package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// line is an issue as programs write it.
func line(id string) string {
	return `{"id":"` + id + `","title":"issue ` + id +
		`","status":"open","priority":2,"issue_type":"task","created_at":"2026-01-01T10:00:00Z","updated_at":"2026-01-01T10:00:00Z"}`
}

const memory = `{"_type":"memory","key":"vpn","value":"Connect first."}`

// placeWith returns a place whose file has this text.
func placeWith(t *testing.T, text string) *place {
	t.Helper()
	p := &place{t, t.TempDir()}
	check(t, os.Mkdir(filepath.Join(p.dir, ".beads"), 0o755))
	check(t, os.WriteFile(p.file(), []byte(text), 0o644))
	return p
}

// TestAChangeOfOneIssueChangesOneLine covers files of other programs and systems.
func TestAChangeOfOneIssueChangesOneLine(t *testing.T) {
	const bom = "\ufeff"
	for name, text := range map[string]string{
		"sorted":        line("x-a") + "\n" + line("x-b") + "\n",
		"another order": line("x-b") + "\n" + line("x-c") + "\n" + line("x-a") + "\n",
		"records of other types": line("x-b") + "\n" + memory + "\n" + line("x-a") + "\n" +
			`{"_type":"gate","id":"x-z"}` + "\n",
		"a schema before the issues": `{"_type":"beads-jsonl","version":2}` + "\n" + line("x-a") + "\n",
		"a byte order mark":          bom + line("x-a") + "\n" + line("x-b") + "\n",
		"carriage returns":           line("x-a") + "\r\n" + line("x-b") + "\r\n",
		"both, and another order":    bom + line("x-b") + "\r\n" + line("x-a") + "\r\n" + memory + "\r\n",
		"both kinds of line ends":    line("x-a") + "\r\n" + line("x-b") + "\n" + line("x-c") + "\r\n",
		"blank lines":                "\n" + line("x-a") + "\n\n" + line("x-b") + "\n\n",
		"text after an object":       line("x-a") + "\n" + line("x-b") + " stray text\n" + line("x-c") + "\n",
		"half a line":                line("x-a") + "\n" + line("x-b")[:40] + "\n" + line("x-c") + "\n",
		"an object that is no issue": line("x-a") + "\n" + `{"title":"no id"}` + "\n" + line("x-c") + "\n",
		"comments with ids of letters": strings.Replace(line("x-a"), `}`,
			`,"comments":[{"id":"019d-4e","issue_id":"x-a","author":"ann","text":"hi","created_at":"2026-01-01T10:00:00Z"}]}`,
			1) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := placeWith(t, text)
			p.must("ann", "sync")
			if diff := cmp.Diff(text, p.raw()); diff != "" {
				t.Fatalf("bd sync changed the file (-before +after):\n%s", diff)
			}
			if listed := p.must("ann", "list", "--all"); strings.Contains(listed, "x-z") {
				t.Errorf("a record of another type is listed: %s", listed)
			}
			p.must("ann", "comments", "add", "x-a", "a note")
			if changed := p.changedLines(text); len(changed) != 1 || !strings.Contains(changed[0], `"a note"`) {
				t.Errorf("lines changed:\n%s", changed)
			}
			marked := strings.HasPrefix(text, bom)
			if ended := strings.Count(text, "\n"); strings.Count(p.raw(), "\n") != ended ||
				strings.HasPrefix(p.raw(), bom) != marked {
				t.Errorf("the file is %q, was %q", p.raw(), text)
			}
			before := p.raw()
			p.must("ann", "create", "a new one", "--id", "x-bb")
			changed := p.changedLines(before)
			if len(changed) != 1 || strings.HasSuffix(changed[0], "\r\n") != strings.HasSuffix(strings.SplitAfter(text, "\n")[0],
				"\r\n") {
				t.Errorf("lines added: %q", changed)
			}
		})
	}
}

func TestALineThatCannotBeReadIsNamedAndRestored(t *testing.T) {
	for name, c := range map[string]struct {
		bad, finding string
		restored     []string // issues
		removed      string
		stays        bool
	}{
		"text after an object": {line("x-b") + " stray text", "line 2 (x-b): not JSON", []string{"x-b"}, "stray text", false},
		"a comma":              {line("x-b") + ",", "line 2 (x-b): not JSON", []string{"x-b"}, ",", false},
		"two objects":          {line("x-b") + line("x-bb"), "line 2 (x-b): not JSON", []string{"x-b", "x-bb"}, "", false},
		"a memory and text":    {memory + " >>", "line 2: not JSON", nil, ">>", false},
		"half an object":       {line("x-b")[:40], "line 2: not JSON", nil, "", true},
		"half a second object": {line("x-b") + line("x-bb")[:40], "line 2 (x-b): not JSON", []string{"x-b"},
			`{"id":"x-bb"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := line("x-a") + "\n" + c.bad + "\n" + line("x-c") + "\n" + line("x-d") + "\n"
			p := placeWith(t, text)
			out, err := p.command("ann", "doctor").Output()
			if err == nil || !strings.Contains(string(out), c.finding) {
				t.Errorf("bd doctor: %v, %q, want %q", err, out, c.finding)
			}
			restore := p.command("ann", "doctor", "--restore")
			var said bytes.Buffer
			restore.Stderr = &said
			if err := restore.Run(); (err == nil) == c.stays {
				t.Errorf("bd doctor --restore: %v, %s", err, &said)
			}
			for _, id := range c.restored {
				if shown := p.must("ann", "show", id); !strings.Contains(shown, "issue "+id) {
					t.Errorf("bd show %s: %s", id, shown)
				}
			}
			if c.removed != "" && !strings.Contains(strings.ReplaceAll(said.String(), `\"`, `"`), c.removed) {
				t.Errorf("it says %q, want the removed text %q", &said, c.removed)
			}
			for _, kept := range []string{line("x-a"), line("x-c")} {
				if !strings.Contains(p.raw(), kept+"\n") {
					t.Errorf("%s changed:\n%s", kept, p.raw())
				}
			}
			if stays := strings.Contains(p.raw(), c.bad+"\n"); stays != c.stays {
				t.Errorf("the line stays: %v, want %v:\n%s", stays, c.stays, p.raw())
			}
		})
	}
}

func TestLinesOfAQuarantineComeBack(t *testing.T) {
	p := placeWith(t, line("x-a")+"\n")
	aside := `{"at":"2026-01-01T00:00:00Z","reason":"no id","line":"{\"_type\":\"memory\",\"key\":\"vpn\",\"value\":\"Connect first.\"}"}` + "\n"
	lost := `{"at":"2026-01-01T00:00:00Z","reason":"not JSON","line":"half a line"}` + "\n"
	file := filepath.Join(p.dir, ".beads", "quarantine.jsonl")
	check(t, os.WriteFile(file, []byte(aside+lost), 0o644))
	if out, err := p.command("ann", "doctor").Output(); err == nil ||
		!strings.Contains(string(out), "quarantine.jsonl has 1 line of the file") ||
		!strings.Contains(string(out), "quarantine.jsonl has 1 line that nothing can read") {
		t.Errorf("bd doctor: %v, %s", err, out)
	}
	p.must("ann", "doctor", "--fix")
	if !strings.Contains(p.raw(), memory+"\n") {
		t.Errorf("the memory is not back:\n%s", p.raw())
	}
	left, err := os.ReadFile(file)
	check(t, err)
	if diff := cmp.Diff(lost, string(left)); diff != "" {
		t.Errorf("quarantine (-want +got):\n%s", diff)
	}
}

func TestAFileThatIsMostlyUnreadableIsNotWritten(t *testing.T) {
	p := placeWith(t, line("x-a")+"\n<html>\n<body>\n")
	p.refused(p.command("ann", "create", "one more"), "2 of 3 lines")
	units := utf16.Encode([]rune("\ufeff" + line("x-a") + "\r\n" + line("x-b") + "\r\n"))
	var text []byte
	for _, u := range units {
		text = append(text, byte(u), byte(u>>8))
	}
	p = placeWith(t, string(text))
	if out := p.must("ann", "list"); !strings.Contains(out, "issue x-b") {
		t.Errorf("bd list of UTF-16: %s", out)
	}
	p.refused(p.command("ann", "create", "one more"), "UTF-16")
	p.must("ann", "doctor", "--restore")
	if diff := cmp.Diff(line("x-a")+"\r\n"+line("x-b")+"\r\n", p.raw()); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	p.must("ann", "create", "one more")
}

// TestRecordsOfOtherTypesTravel covers export, import and the merge driver.
func TestRecordsOfOtherTypesTravel(t *testing.T) {
	p := placeWith(t, line("x-b")+"\n"+line("x-a")+"\n"+memory+"\n")
	if diff := cmp.Diff(p.raw(), p.must("ann", "export")); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}
	if out := p.must("ann", "export", "--no-memories"); strings.Contains(out, "memory") {
		t.Errorf("bd export --no-memories: %s", out)
	}
	other := placeWith(t, line("x-c")+"\n")
	other.must("ann", "import", p.file())
	if !strings.Contains(other.raw(), memory+"\n") {
		t.Errorf("imported:\n%s", other.raw())
	}
	if out := other.must("ann", "doctor"); !strings.Contains(out, "no problems") ||
		!strings.Contains(out, "1 record of type memory") {
		t.Errorf("bd doctor: %s", out)
	}
	newer := strings.Replace(memory, "Connect", "Log in", 1)
	for name, c := range map[string]struct{ base, ours, theirs, want string }{
		"changed by one side": {memory, memory, newer, newer},
		"removed by one side": {memory, memory, "", ""},
		"added by one side":   {"", "", memory, memory},
	} {
		files := []string{"out", "base", "ours", "theirs"}
		for i, text := range []string{"", c.base, c.ours, c.theirs} {
			check(t, os.WriteFile(filepath.Join(p.dir, files[i]), []byte(line("x-a")+"\n"+strings.TrimPrefix(text+"\n", "\n")),
				0o644))
		}
		p.must("ann", append([]string{"merge"}, files...)...)
		got, err := os.ReadFile(filepath.Join(p.dir, "out"))
		check(t, err)
		if diff := cmp.Diff(strings.TrimSpace(line("x-a")+"\n"+c.want), strings.TrimSpace(string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
