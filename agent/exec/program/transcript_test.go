package program

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mailroom"
)

var update = flag.Bool("update", false, "write what the transcripts come to into the golden files")

// TestTranscripts replays recorded sessions of real programs. The expected output is in testdata:
// one file per program, with a section for each transcript.
func TestTranscripts(t *testing.T) {
	for _, p := range All() {
		golden := filepath.Join("testdata", p.Name+".txtar")
		files, err := filepath.Glob(filepath.Join("..", "testdata", "transcripts", p.Name, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d transcripts of %s, %v", len(files), p.Name, err)
		}
		if *update {
			a := &txtar.Archive{Comment: []byte("What is written of each transcript of " + p.Name +
				". Made by go test -update, read by a person.\n\n")}
			for _, file := range files {
				a.Files = append(a.Files, txtar.File{Name: caseOf(file), Data: []byte(replay(t, p, file) + "\n")})
			}
			if err := os.WriteFile(golden, txtar.Format(a), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := txtar.ParseFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, f := range a.Files {
			want[f.Name] = strings.TrimSuffix(string(f.Data), "\n")
		}
		for _, file := range files {
			t.Run(p.Name+"/"+caseOf(file), func(t *testing.T) {
				if diff := cmp.Diff(want[caseOf(file)], replay(t, p, file)); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			})
			delete(want, caseOf(file))
		}
		for name := range want {
			t.Errorf("missing transcript %s of %s", name, p.Name)
		}
	}
}

func caseOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".jsonl") }

// event is a line of a transcript.
type event struct {
	Argv []string
	Out  json.RawMessage
	Err  json.RawMessage
	Exit *int
}

// replay returns the output for the lines of a transcript.
func replay(t *testing.T, p *Profile, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var f Fold
	var e Ending
	for _, text := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		var ev event
		if err := json.Unmarshal(text, &ev); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch {
		case ev.Argv != nil:
			argv := strings.Join(ev.Argv, " ")
			e.Resumed = strings.Contains(argv, "--resume") || strings.Contains(argv, " resume ")
		case ev.Err != nil:
			e.Stderr += line(ev.Err)
		case ev.Exit != nil:
			if e.Code = *ev.Exit; e.Code > 128 {
				e.Signal, e.Code = syscall.Signal(e.Code-128).String(), -1
			}
		case ev.Out != nil:
			events, err := p.Decode(ev.Out)
			if err != nil {
				fmt.Fprintf(&out, "skipped: %v\n", err)
				continue
			}
			e.SawLine = true
			for _, event := range events {
				e.Worked = e.Worked || Works(event)
				if end, ok := event.(End); ok {
					e.End = &end
				}
				showEvent(&out, event)
				for _, w := range f.Apply(event) {
					showWrite(&out, w)
				}
			}
		}
	}
	for _, n := range f.Close("the program has ended") {
		fmt.Fprintf(&out, "last %s %s\n", n.Kind, n.Body)
	}
	used, totals := f.UsageSince(mailroom.Usage{})
	e.Used, e.Now = used.OutputTokens > 0, time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC)
	fmt.Fprintf(&out, "used %s of %s\n", formatUsage(used), formatUsage(totals))
	switch v := p.Judge(e); {
	case v.Gone:
		fmt.Fprintf(&out, "gone: %s\n", v.Message)
	case v.Fault != "":
		fmt.Fprintf(&out, "%s: %s (fault of the agent: %s)\n", v.Class, v.Message, v.Fault)
	case v.Class == "":
		fmt.Fprintln(&out, "done")
	default:
		fmt.Fprintf(&out, "%s: %s\n", v.Class, v.Message)
	}
	return out.String()
}

// showEvent formats an event that the fold does not write.
func showEvent(out *strings.Builder, event Event) {
	switch event := event.(type) {
	case Session:
		fmt.Fprintf(out, "session %s\n", event.ID)
	case Question:
		fmt.Fprintf(out, "question about %s: %s %s (%s)\n", event.Call, event.Tool, event.Arguments, event.About)
	case Request:
		fmt.Fprintf(out, "request %s\n", event.Kind)
	case End:
		fmt.Fprintf(out, "end ok=%v aborted=%v\n", event.OK, event.Aborted)
	}
}

func showWrite(out *strings.Builder, w Write) {
	if w.Step == nil {
		fmt.Fprintf(out, "stream %q\n", w.Text)
		return
	}
	how := "step"
	if w.Step.NoProgress {
		how = "record"
	}
	if w.Step.Internal {
		how = "aside"
	}
	if len(w.Step.Entries) == 0 {
		fmt.Fprintln(out, how)
	}
	for _, n := range w.Step.Entries {
		fmt.Fprintf(out, "%s %s %s\n", how, n.Kind, n.Body)
	}
}

// formatUsage formats a usage, with what few programs report only if it is there.
func formatUsage(u mailroom.Usage) string {
	text := fmt.Sprintf("{InputTokens:%d OutputTokens:%d CostUSD:%v", u.InputTokens, u.OutputTokens, u.CostUSD)
	if rest := fmt.Sprintf(" CacheRead:%d CacheWrite:%d Reasoning:%d", u.CacheReadTokens, u.CacheWriteTokens,
		u.ReasoningTokens); rest != " CacheRead:0 CacheWrite:0 Reasoning:0" {
		text += rest
	}
	return text + "}"
}
