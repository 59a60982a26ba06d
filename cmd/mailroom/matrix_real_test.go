//go:build realchannels

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mailroom/channel/chat/outbound"
	"mailroom/channel/matrix/matrixtest"
	"mailroom/entry"
)

func init() {
	matrixHomes["Dendrite"] = func(t *testing.T) matrixServer {
		d := matrixtest.StartDendrite(t)
		return matrixServer{d.URL, func() {
			d.Kill()
			d.Up()
		}}
	}
}

// element is a user with the client library of Element, in a child process.
type element struct {
	t  *testing.T
	in io.Writer

	// Owned by mu.
	mu    sync.Mutex
	lines []update
	next  int // index of the first line that until has not passed
}

// update is an event as the client library reports it.
type update struct {
	Here   string `json:"here"`
	Room   string `json:"room"`
	Text   string `json:"said"`
	HTML   string `json:"html"`
	By     string `json:"by"`
	ID     string `json:"id"`
	Edits  string `json:"edits"`
	Thread string `json:"thread"`
	Member string `json:"member"`
	Is     string `json:"is"`
	Types  *bool  `json:"types"`
}

func newElement(t *testing.T, at, user string) *element {
	t.Helper()
	script, err := filepath.Abs("../../channel/matrix/node/person.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", script, at, user, matrixtest.Password)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &element{t: t, in: in}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var one update
			if json.Unmarshal(lines.Bytes(), &one) == nil {
				e.mu.Lock()
				e.lines = append(e.lines, one)
				e.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			e.mu.Lock()
			t.Logf("%+v", e.lines)
			e.mu.Unlock()
		}
		_ = in.Close() // ends the process
		reading.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, wrong.String())
		}
	})
	e.until("the start of the client", func(s update) bool { return s.Here != "" })
	return e
}

// does sends a command to the client.
func (e *element) does(what map[string]string) {
	e.t.Helper()
	if err := json.NewEncoder(e.in).Encode(what); err != nil {
		e.t.Fatal(err)
	}
}

func (e *element) says(text string) { e.does(map[string]string{"say": text}) }

// until waits for the next update that good accepts, after the previously accepted one.
func (e *element) until(what string, good func(s update) bool) (found update) {
	e.t.Helper()
	matrixtest.WaitFor(e.t, what, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for i := e.next; i < len(e.lines); i++ {
			if good(e.lines[i]) {
				found, e.next = e.lines[i], i+1
				return true
			}
		}
		return false
	})
	return found
}

// hears waits for a message of the bot that contains words.
func (e *element) hears(bot, words string) update {
	e.t.Helper()
	return e.until(words, func(s update) bool { return s.By == bot && strings.Contains(s.Text, words) })
}

// transcript formats the conversation as the client saw it.
func (e *element) transcript(bot string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out strings.Builder
	for _, s := range e.lines {
		who := map[bool]string{true: "bot", false: "ann"}[s.By == bot]
		text := strings.ReplaceAll(s.Text, "\n", "\n         ")
		switch {
		case s.Text == "":
		case s.Edits != "":
			out.WriteString(who + " edits: " + text + "\n")
		case s.Thread != "":
			out.WriteString(who + " (in a thread): " + text + "\n")
		default:
			out.WriteString(who + ":     " + text + "\n")
		}
	}
	return out.String()
}

// TestAConversationOnMatrix plays a conversation on Dendrite with the client library of Element: Ann is
// paired with a code and asked for an approval, the server and the homeserver are killed, she
// approves, and a run is stopped.
func TestAConversationOnMatrix(t *testing.T) {
	d := matrixtest.StartDendrite(t)
	bot := matrixtest.NewPerson(t, d.URL, "mybot", "My Bot")
	matrixtest.NewPerson(t, d.URL, "ann", "Ann")
	h := newFixture(t, "[agents.tour]\nkind = \"tour\"\npace = \"1ms\"\n")
	if code, output := h.addChannel("tour\n"+d.URL+"\nmybot\n"+matrixtest.Password+"\n", "matrix"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, output)
	}
	settings, err := os.ReadFile(h.dir.Config())
	if err != nil {
		t.Fatal(err)
	}
	h.configure(string(settings) +
		"poll = \"3s\"\ngap = \"10ms\"\nedit_gap = \"200ms\"\nretry_first = \"100ms\"\nretry_most = \"400ms\"\n")
	h.serve()

	ann := newElement(t, d.URL, "ann")
	ann.does(map[string]string{"invite": bot.ID})
	room := ann.until("the room", func(s update) bool { return s.Room != "" }).Room
	ann.says("hello?") // before the bot has joined
	word := regexp.MustCompile(`pair approve (\S+)`).FindStringSubmatch(ann.hears(bot.ID, "I do not know you").Text)
	if code, stderr := h.run(t.Context(), io.Discard, "pair", "approve", "--admin", word[1]); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	ann.says("show me")
	asked := ann.hears(bot.ID, "To allow it: ").Text
	approve := regexp.MustCompile(`To allow it: (.*)`).FindStringSubmatch(asked)[1]
	in := "matrix:" + url.QueryEscape(bot.ID) + ":" + url.QueryEscape(room)
	h.waitEntries("out:"+in, entry.KindCompleted, 2)

	h.server.kill()
	d.Kill()
	d.Up()
	ann.says("!status") // sent while the server is off
	ann.until("the own message", func(s update) bool { return s.Text == "!status" })
	h.serve()
	ann.hears(bot.ID, "It asks: May I send this postcard?")
	ann.says(approve)
	ann.hears(bot.ID, "Approved by")
	ann.hears(bot.ID, "and it was sent once")

	ann.says("once more")
	ann.hears(bot.ID, "To allow it: ")
	ann.says("!stop")
	ann.hears(bot.ID, "Stopping.")
	ann.says("!status")
	root := ann.hears(bot.ID, "is idle").ID
	ann.does(map[string]string{"thread": root, "say": "!status"})
	ann.until("a reply in the thread", func(s update) bool { return s.By == bot.ID && s.Thread == root })

	if got := h.count(in, entry.KindQueued); got != 2 {
		t.Errorf("%d runs, want 2", got)
	}
	if repeated := h.count("out:"+in, outbound.KindRepeated); repeated != 0 {
		t.Errorf("%d replies are marked as repeated, want none", repeated)
	}
	t.Logf("\n%s", ann.transcript(bot.ID))
}
