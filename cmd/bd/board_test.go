package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"mailroom/channel/platformtest"
	"mailroom/internal/machinetest"
	"mailroom/issues/bd"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/tracker"
)

// TestSessionsWithBoards runs each file of testdata/boards as a session of a user whose issues are on a board.
func TestSessionsWithBoards(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/boards",
		Setup: func(env *testscript.Env) error {
			f, g := boardtest.NewLinear(t, 6), boardtest.NewGitHub(t)
			g.Add(1, 6)
			for n := range 6 {
				g.Edit(n+1, func(it *boardtest.GitHubIssue) { it.URL = fmt.Sprint("https://github.example/ann/roof/issues/", n+1) })
			}
			env.Values["linear"], env.Values["github"] = f, g
			for name, value := range map[string]string{"PATH": machinetest.Path(), "HOME": env.WorkDir, "BD_ACTOR": "ann",
				"TZ": "UTC", "LINEAR_API_URL": "http://" + f.Addr, "LINEAR_API_KEY": boardtest.LinearToken,
				"GITHUB_API_URL": g.Server.URL, "GITHUB_TOKEN": boardtest.Token} {
				env.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"linear": func(ts *testscript.TestScript, _ bool, args []string) {
				changeLinear(ts.Value("linear").(*boardtest.Linear), append(args, "", "")[:3])
			},
			"github": func(ts *testscript.TestScript, _ bool, args []string) {
				changeGitHub(ts.Value("github").(*boardtest.GitHub), append(args, "", "")[:3])
			},
			"edit": func(ts *testscript.TestScript, _ bool, args []string) {
				const script = `id=$(grep -F "\"title\":\"$0\"" .beads/issues.jsonl | sed 's/^{"id":"\([^"]*\)".*/\1/')
					bd update -q $id "$@"`
				ts.Check(ts.Exec("sh", append([]string{"-c", script}, args...)...))
			},
		},
	})
}

// changeLinear changes an issue of a board like a person.
func changeLinear(f *boardtest.Linear, args []string) {
	name, text := args[1], args[2]
	labels := func(change func([]boardtest.Object) []boardtest.Object) {
		f.Edit(name, func(it boardtest.Object) { it["labels"] = change(slices.Clone(it["labels"].([]boardtest.Object))) })
	}
	switch args[0] {
	case "describe":
		f.Edit(name, func(it boardtest.Object) { it["description"] = text })
	case "title":
		f.Edit(name, func(it boardtest.Object) { it["title"] = text })
	case "assign":
		f.Edit(name, func(it boardtest.Object) { it["assignee"] = boardtest.Object{"id": "u-" + text, "name": text} })
	case "label":
		labels(func(all []boardtest.Object) []boardtest.Object { return append(all, boardtest.Object{"name": text}) })
	case "unlabel":
		labels(func(all []boardtest.Object) []boardtest.Object {
			return slices.DeleteFunc(all, func(l boardtest.Object) bool { return l["name"] == text })
		})
	case "comment":
		f.Edit(name, func(it boardtest.Object) {
			it["comments"] = append(it["comments"].([]boardtest.Object), boardtest.Object{"id": "c1", "body": text,
				"createdAt": time.Now().UTC().Format(time.RFC3339), "user": boardtest.Object{"name": "bob"}})
		})
	case "block":
		by := f.Issue(text)
		f.Edit(name, func(it boardtest.Object) {
			it["inverseRelations"] = []boardtest.Object{{"id": "r1", "type": "blocks", "issue": by}}
		})
	case "parent":
		parent := f.Issue(text)
		f.Edit(name, func(it boardtest.Object) { it["parent"] = parent })
	case "state":
		f.Edit(name, func(it boardtest.Object) { it["state"] = boardtest.LinearState("R", text) })
	case "move":
		f.Move(name, "Todo")
	case "fail":
		f.Fail("issues", platformtest.Fault{Raw: name})
	case "limit":
		f.Fail("issues", platformtest.Fault{Code: "RATELIMITED", Status: 400, RetryAfter: 7200})
	default:
		panic(args[0])
	}
}

// changeGitHub changes an issue of a repository like a person.
func changeGitHub(f *boardtest.GitHub, args []string) {
	number, _ := strconv.Atoi(args[1]) // "" for none
	text := args[2]
	edit := func(change func(it *boardtest.GitHubIssue)) { f.Edit(number, change) }
	switch args[0] {
	case "assign":
		edit(func(it *boardtest.GitHubIssue) { it.Assign(text) })
	case "label":
		edit(func(it *boardtest.GitHubIssue) { it.AddLabel(text) })
	case "unlabel":
		edit(func(it *boardtest.GitHubIssue) {
			it.Labels = slices.DeleteFunc(it.Labels, func(l boardtest.Label) bool { return l.Name == text })
		})
	case "comment":
		f.Comment(number, "bob", text, boardtest.Now())
		edit(func(*boardtest.GitHubIssue) {})
	case "block":
		by, _ := strconv.Atoi(text)
		edit(func(it *boardtest.GitHubIssue) { it.BlockedBy = append(it.BlockedBy, by) })
	case "parent":
		edit(func(it *boardtest.GitHubIssue) { it.ParentURL = f.URL + "/repos/ann/roof/issues/" + text })
	case "close":
		now := boardtest.Now()
		edit(func(it *boardtest.GitHubIssue) { it.State, it.ClosedAt, it.StateReason = "closed", &now, "completed" })
	case "pull":
		edit(func(it *boardtest.GitHubIssue) { it.PullRequest = map[string]string{"url": "x"} })
	case "fail":
		f.Do(func() {
			f.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte("<html>sign in"))
				return true
			}
		})
	default:
		panic(args[0])
	}
}

// TestAnImportOfABoardAsksForWhatHasChanged imports three times, and looks at what the board is asked for.
func TestAnImportOfABoardAsksForWhatHasChanged(t *testing.T) {
	p, day := newPlace(t), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	var asked []tracker.Remote
	source := func(_ context.Context, r tracker.Remote) (all []tracker.Outside, _ error) {
		asked = append(asked, r)
		for n := range 2 {
			all = append(all, tracker.Outside{Key: fmt.Sprint("k", n), Issue: tracker.Issue{Title: "t",
				Status: tracker.StatusOpen, CreatedAt: day, UpdatedAt: day.Add(time.Duration(n) * time.Hour)}})
		}
		return all, nil
	}
	for _, closed := range []string{"", "", "--closed"} {
		m := bd.Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: p.dir,
			Env:     func(name string) string { return map[string]string{"GH_TOKEN": "x", "BD_ACTOR": "ann"}[name] },
			Sources: map[string]bd.Source{"github": source}}
		if code := m.Run(t.Context(), strings.Fields("import --from github ann/roof "+closed)); code != 0 {
			t.Fatal(code)
		}
	}
	seen := map[string]time.Time{"k0": day}
	since := day.Add(50 * time.Minute)
	want := []tracker.Remote{{Place: "ann/roof", Token: "x", Seen: map[string]time.Time{}},
		{Place: "ann/roof", Token: "x", Since: since, Seen: seen},
		{Place: "ann/roof", Token: "x", Since: since, Seen: seen, Closed: true}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
