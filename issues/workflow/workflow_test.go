package workflow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func noEnv(string) (string, bool) { return "", false }

const example = `---
tracker:
  kind: linear
  project_slug: "roof"
  api_key: $LINEAR_API_KEY
  required_labels: [Agent]
  active_states:
    - Todo
    - Rework
  terminal_states: Done, Canceled
polling:
  interval_ms: 5000
hooks:
  after_create: |
    git clone .
agent:
  max_concurrent_agents: 3
  max_turns: 20
codex:
  command: codex app-server
  model: m
typo: 1
---

You work on {{ issue.identifier }}: {{ issue.title }}.
{% if attempt %}Retry {{ attempt }}.{% endif %}
{%- if issue.description -%}
{{ issue.description }}
{%- else -%}
No description.
{%- endif %}
{% for b in issue.blocked_by %}{{ b.identifier }}{% unless forloop.last %}, {% endunless %}{% endfor %}
{{ issue.labels | join: " " | upcase }}
`

func TestAFileIsReadAsSymphonyReadsIt(t *testing.T) {
	w, err := parse([]byte(example), listed([]string{"LINEAR_API_KEY"}, func(string) string { return "secret" }))
	if err != nil {
		t.Fatal(err)
	}
	got := *w
	got.body, got.Settings, got.Notes = nil, nil, nil
	want := Workflow{Kind: "linear", Project: "roof", APIKey: "secret", RequiredLabels: []string{"Agent"},
		ActiveStates: []string{"Todo", "Rework"}, TerminalStates: []string{"Done", "Canceled"}, Interval: 5 * time.Second,
		MaxAgents: 3, Hooks: map[string]string{"after_create": "git clone .\n"}, HookTimeout: time.Minute}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Workflow{})); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for _, note := range []string{"hooks.after_create is not run", "agent.max_turns has no effect", "unknown key typo",
		"codex.model"} {
		if !strings.Contains(strings.Join(w.Notes, "\n"), note) {
			t.Errorf("the notes lack %q:\n%s", note, strings.Join(w.Notes, "\n"))
		}
	}
	for _, s := range w.Settings {
		if strings.Contains(s.Value, "secret") || strings.Contains(s.Value, "clone") {
			t.Errorf("the setting %s shows its value: %s", s.Key, s.Value)
		}
	}
	prompt, err := w.Prompt(Issue{Identifier: "R-1", Title: "{{ attempt }}", Labels: []string{"A", "b"},
		BlockedBy: []Blocker{{Identifier: "R-2"}, {Identifier: "R-3"}}}, 2)
	if want := "You work on R-1: {{ attempt }}.\nRetry 2.No description.\nR-2, R-3\nA B"; err != nil || prompt != want {
		t.Errorf("prompt %q, %v, want %q", prompt, err, want)
	}
}

func TestAFileThatCannotBeReadIsRefusedWithItsLine(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"a variable that is not listed", "---\ntracker:\n  api_key: $SECRET\n---\n", "line 3: tracker.api_key: the variable $SECRET is not"},
		{"no end", "---\ntracker: {}\n", "the front matter has no end"},
		{"not keys", "---\n- 1\n---\n", "no list of keys"},
		{"a table as text", "---\ntracker: 1\n---\n", "tracker is no list of keys"},
		{"an alias", "---\na: &x [1]\nb: *x\n---\n", "anchors and aliases are refused"},
		{"a key twice", "---\nagent: {}\nagent: {}\n---\n", "line 3: "},
		{"no number", "---\nagent:\n  max_concurrent_agents: many\n---\n", `"many" is not a number from 1`},
		{"an interval of 0", "---\npolling: {interval_ms: 0}\n---\n", "in milliseconds"},
		{"unknown variable", "{{ user }}", `unknown variable "user"`},
		{"unknown field", "a\n{{ issue.owner }}", `line 2: unknown variable "issue.owner"`},
		{"unknown variable of a branch that is never taken", "{% if false %}{{ x }}{% endif %}", `unknown variable "x"`},
		{"unknown variable of a condition", "{% if issue.x == 1 %}{% endif %}", `unknown variable "issue.x"`},
		{"a loop's variable behind it", "{% for l in issue.labels %}{% endfor %}{{ l }}", `unknown variable "l"`},
		{"unknown filter", "{{ issue.id | shell }}", `unknown filter "shell"`},
		{"behind a front matter", "---\nagent: {}\n---\n\nok\n{{ x }}", `line 6: unknown variable "x"`},
		{"include", "{% include 'x' %}", "reads no other file"},
		{"unknown tag", "{% system %}", `unknown tag "system"`},
		{"no end of a block", "{% if attempt %}", "has no {% endif %}"},
		{"an end of nothing", "{% endfor %}", "ends nothing"},
		{"not closed", "{{ issue.id", "is not closed"},
		{"deep", strings.Repeat("{% if attempt %}", 99), "blocks in each other"},
		{"long", strings.Repeat("x", maxBody+1), "more than the limit"},
	} {
		_, err := parse([]byte(c.file), noEnv)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestATemplateRendersAsLiquidDoes(t *testing.T) {
	it := Issue{ID: "i", Identifier: "R-1", Title: "a b", Priority: 2, State: "Todo", Labels: []string{"X", "y"}}
	for _, c := range []struct{ body, want string }{
		{"{{ issue.title | capitalize | append: '!' }}", "A b!"},
		{"{{ issue.description }}|{{ issue.description | default: 'none' }}", "|none"},
		{"{{ issue.labels }} {{ issue.labels.size }} {{ issue.labels[0] }} {{ issue['state'] }}", "xy 2 x Todo"},
		{"{% if issue.priority <= 2 and issue.state == 'Todo' %}yes{% elsif true %}no{% endif %}", "yes"},
		{"{% if issue.labels contains 'y' %}y{% endif %}{% if issue.title contains 'b' %}b{% endif %}", "yb"},
		{"{% unless attempt %}first{% else %}again{% endunless %}", "first"},
		{"{% case issue.state %}{% when 'A', 'Todo' %}1{% when 'B' %}2{% else %}3{% endcase %}", "1"},
		{"{% for i in (1..5) limit: 3 offset: 1 %}{{ forloop.index }}{{ i }} {% endfor %}", "12 23 34"},
		{"{% for i in (1..9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "13"},
		{"{% for b in issue.blocked_by %}x{% else %}free{% endfor %}", "free"},
		{"{% assign n = issue.priority | plus: 1 | times: 2 %}{{ n }}{% capture c %}<{{ n }}>{% endcapture %}{{ c }}", "6<6>"},
		{"a {%- comment -%} {{ nothing }} {% endcomment %}b{% raw %}{{ x }}{% endraw %}{% # note %}", "ab{{ x }}"},
		{"{{ 'a,b,c' | split: ',' | reverse | join: '-' }} {{ 'abcdef' | truncate: 5 }}", "c-b-a ab..."},
		{"{% if issue.description == empty or issue.labels == empty %}e{% else %}f{% endif %}", "f"},
		{"{{ 7 | minus: 2 | modulo: 3 }} { { {x} {{ \"a'b\" | escape }}", "2 { { {x} a&#39;b"},
	} {
		w, err := parse([]byte(c.body), noEnv)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got, err := w.Prompt(it, 0); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.body, got, err, c.want)
		}
	}
}

func TestATemplateIsBoundedInTimeAndOutput(t *testing.T) {
	loop := func(inner string) string { return "{% for a in (1..10000) %}" + inner + "{% endfor %}" }
	for name, body := range map[string]string{
		"loops":    loop(loop(loop("x"))),
		"silent":   loop(loop("{% assign x = 1 %}")),
		"range":    "{% for a in (1..2000000000) %}{% endfor %}",
		"output":   loop(strings.Repeat("x", 1000)),
		"doubled":  "{% assign s = 'x' %}" + loop("{% assign s = s | append: s %}"),
		"replaced": "{% assign s = 'x' %}" + loop("{% assign s = s | replace: 'x', 'xxxxxxxx' %}"),
		"list":     "{% assign l = issue.labels %}" + loop("{% assign l = l | concat: l %}"),
		"long work": "{% assign s = 'x' %}{% for a in (1..19) %}{% assign s = s | append: s %}{% endfor %}" +
			loop("{% assign t = s | upcase %}"),
	} {
		w, err := parse([]byte(body), noEnv)
		if err != nil {
			t.Fatal(name, err)
		}
		if got, err := w.Prompt(Issue{Labels: []string{"a"}}, 0); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %d bytes, error %v, want a limit", name, len(got), err)
		}
	}
}

func TestAFaultyChangeLeavesTheLastGoodFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "WORKFLOW.md")
	f := NewFile(path, nil, os.Getenv)
	if w, err := f.Load(); w != nil || err == nil {
		t.Fatalf("without a file: %v, %v", w, err)
	}
	load := func(text, want, fault string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second one without a change
			w, err := f.Load()
			if w == nil || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
				t.Fatalf("%q: %v, %v, want fault %q", text, w, err, fault)
			}
			if got, err := w.Prompt(Issue{}, 0); got != want || err != nil {
				t.Errorf("%q: prompt %q, %v, want %q", text, got, err, want)
			}
		}
	}
	load("one", "one", "")
	load("---\nagent: 1\n---\ntwo", "one", "agent is no list of keys")
	load("{{ x }}", "one", "unknown variable")
	load("three", "three", "")
	load("", "three", "is empty")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if w, err := f.Load(); w == nil || err == nil {
		t.Errorf("after the file is gone: %v, %v, want the last one and an error", w, err)
	}
}

// FuzzParse checks that any file is refused with an error that is a line, or renders within the limits.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("{% case issue.state %}{% when 'a' or \"b\" %}{% endcase %}{{ (1..3) | map: 'x' }}{{ -1.5 | round }}"))
	f.Add([]byte("---\ntracker: {provider: {repo: a/b}}\nhooks: {timeout_ms: 1}\n---\n{%- raw -%}{{-x-}}{% endraw %}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		w, err := parse(file, noEnv)
		if err != nil {
			if w != nil || strings.TrimSpace(err.Error()) == "" {
				t.Fatalf("error %q with a workflow", err)
			}
			return
		}
		out, err := w.Prompt(Issue{ID: "1", Title: string(file), Labels: []string{"a", "b"}, BlockedBy: []Blocker{{}}}, 1)
		if len(out) > maxOutput || err != nil && out != "" {
			t.Errorf("%d bytes, error %v", len(out), err)
		}
	})
}
