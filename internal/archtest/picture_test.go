package archtest

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the picture of the tree again")

// box is a folder in the picture of the tree, with the steps of a message's way that happen there.
type box struct {
	folder, note string
	steps        string
}

// picture is the tree from the roof to the ground. A folder imports only those of rows below its own, and a few beside
// it.
func picture() [][]box {
	return [][]box{
		{{"cmd", "the programs mailroom and bd", ""}},
		{{"app", "settings, data folder, wiring, commands", ""}, {"web", "the pages", ""}},
		{{"server", "HTTP, sessions, streams", "1 8"}, {"worker", "agents elsewhere", ""}, {"protocol", "MCP", ""}},
		{{"channel", "chats and other platforms", "1"}, {"alert", "notifies people", ""}, {"issues", "the tracker", ""}},
		{{"engine", "executes", "5"}, {"agent", "codex, claude, …", "6"}, {"stream", "a log, then live", "8"},
			{"client", "for Go", ""}},
		{{"ledger", "commits", "2 7"}, {"doctor", "checks the store", ""}, {"api", "wire types", ""}},
		{{"thread", "rules", "3"}, {"project", "reservations", ""}, {"store", "SQLite, PostgreSQL", "4"},
			{"bus", "hints", "8"}},
		{{"entry", "bodies of the log", ""}, {"auth", "tokens, quotas", ""}},
		{{".", "runs, threads, messages, tickets: the nouns", ""}},
	}
}

// way are the steps of one message.
func way() []string {
	return []string{
		"1  a request or a chat brings a message",
		"2  it becomes an operation of the next batch",
		"3  the rules of its thread add it to the log",
		"4  the batch is one transaction on disk",
		"5  the same commit gives the run to a free slot",
		"6  the agent works: steps, questions, text",
		"7  its reply settles the run, in a transaction",
		"8  readers get each entry, once and in order",
	}
}

// draw returns the picture as SVG, for light and dark pages.
func draw() string {
	const width, left, wide, high, gap = 1000, 10, 620, 46, 8
	const circle = `<circle cx="%d" cy="%d" r="9"/><text class="step" x="%d" y="%d">%s</text>`
	rows := picture()
	height := len(rows)*(high+gap) + 20
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`aria-label="The floors of the source tree, and the way of one message">`, width, height)
	line(`<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .name { font-weight: 600 }
.note { fill: #59636e } rect { fill: #f6f8fa; stroke: #d1d9e0 } circle { fill: #0969da } 
.step { fill: #fff; font-weight: 600; text-anchor: middle }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .note { fill: #9198a1 } rect { fill: #151b23; stroke: #3d444d } circle { fill: #1f6feb }
.step { fill: #fff }
}
</style>`)
	for i, row := range rows {
		y := 10 + i*(high+gap)
		each := (wide - (len(row)-1)*gap) / len(row)
		for k, x := range row {
			at := left + k*(each+gap)
			name := x.folder
			if name == "." {
				name = "mailroom"
			}
			line(`<rect x="%d" y="%d" width="%d" height="%d" rx="6"/>`, at, y, each, high)
			line(`<text class="name" x="%d" y="%d">%s</text>`, at+10, y+19, html.EscapeString(name))
			line(`<text class="note" x="%d" y="%d">%s</text>`, at+10, y+37, html.EscapeString(x.note))
			for n, step := range strings.Fields(x.steps) {
				cx := at + each - 14 - n*22
				line(circle, cx, y+14, cx, y+19, step)
			}
		}
	}
	line(`<text class="name" x="%d" y="30">The way of one message</text>`, left+wide+30)
	for i, step := range way() {
		number, text, _ := strings.Cut(step, "  ")
		y := 62 + i*34
		line(circle, left+wide+40, y-5, left+wide+40, y, number)
		line(`<text x="%d" y="%d">%s</text>`, left+wide+58, y, html.EscapeString(text))
	}
	line(`</svg>`)
	return b.String()
}

func TestThePictureOfTheTreeIsTrue(t *testing.T) {
	files := tree(t)
	row := map[string]int{}
	for i, boxes := range picture() {
		for _, x := range boxes {
			if !slices.ContainsFunc(files, func(f *file) bool { return within(f.folder(), x.folder) }) {
				t.Errorf("%s is not there", x.folder)
			}
			row[x.folder] = i
		}
	}
	for _, f := range files {
		from, drawn := row[top(f.folder())]
		if f.test || isSupport(f.folder()) || !drawn || f.folder() == "channel/webhook" { // which adds routes to the server
			continue
		}
		for _, at := range importsOf(f) {
			to, ours := strings.CutPrefix(at, module+"/")
			if below, ok := row[top(to)]; ours && ok && below < from {
				t.Errorf("%s imports %s, which is drawn above it", f.name, to)
			}
		}
	}
	name := filepath.Join("..", "..", "docs", "tree.svg")
	if *update {
		if err := os.WriteFile(name, []byte(draw()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != draw() {
		t.Errorf("docs/tree.svg is old (%v): draw it again with go test ./internal/archtest -run Picture -update", err)
	}
}
