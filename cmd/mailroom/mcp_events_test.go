package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"mailroom/protocol/mcp"
)

// eventPipe is mailroom mcp in a child process, with a client of the extension Events that sees each line.
type eventPipe struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	last  int
}

// eventLine is a line of the server.
type eventLine struct {
	ID     int
	Method string
	Params struct {
		EventID, Cursor string
	}
	Result json.RawMessage
	Error  *struct{ Message string }
}

func (h *fixture) startEvents(thread string) *eventPipe {
	h.t.Helper()
	p := &eventPipe{t: h.t, cmd: exec.Command("mailroom", "mcp", "--silent", "--thread", thread)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "MAILROOM_DATA="+string(h.dir)), h.t.Output()
	in, err := p.cmd.StdinPipe()
	h.must(err)
	out, err := p.cmd.StdoutPipe()
	h.must(err)
	h.must(p.cmd.Start())
	p.in, p.lines = in, bufio.NewScanner(out)
	h.t.Cleanup(p.kill)
	return p
}

// kill ends the server with SIGKILL and waits until it has ended.
func (p *eventPipe) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // its error is the kill
	}
}

// write sends a request.
func (p *eventPipe) write(method string, params map[string]any) {
	p.t.Helper()
	p.last++
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.last, "method": method, "params": params})
	if err == nil {
		_, err = p.in.Write(append(raw, '\n'))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// next reads the next line of a method, or with "" the next answer, and skips heartbeats and errors of an outage.
func (p *eventPipe) next(method string) (l eventLine) {
	p.t.Helper()
	for p.lines.Scan() {
		l = eventLine{}
		if err := json.Unmarshal(p.lines.Bytes(), &l); err != nil {
			p.t.Fatalf("%v in %s", err, p.lines.Text())
		}
		switch l.Method {
		case method:
			return l
		case "notifications/events/heartbeat", "notifications/events/error":
		default:
			p.t.Fatalf("%s, want %s", p.lines.Text(), method)
		}
	}
	p.t.Fatalf("the server has ended: %v", p.lines.Err())
	return l
}

// stream opens a stream and returns its cursor.
func (p *eventPipe) stream(cursor any) string {
	p.t.Helper()
	p.write("events/stream", map[string]any{"name": mcp.EventWaiting, "cursor": cursor})
	return p.next("notifications/events/active").Params.Cursor
}

// event reads an event, and returns its id and the cursor after it.
func (p *eventPipe) event() (id, cursor string) {
	p.t.Helper()
	e := p.next("notifications/events/event")
	return e.Params.EventID, e.Params.Cursor
}

// pop removes the message at the head, from another process.
func (h *fixture) popAt(box *mcpClient, run string) {
	h.t.Helper()
	var popped mcp.Popped
	box.must("inbox_pop", map[string]any{"activity_id": run}, &popped)
	if !popped.Removed {
		h.t.Errorf("%s was not removed: %s", run, popped.Reason)
	}
}

// TestEventsOfAnInboxOverKills kills the MCP server after a message has come and before its client has read the event,
// then between event and read, and then the server itself: the client goes on with the cursor that it has.
func TestEventsOfAnInboxOverKills(t *testing.T) {
	h := newFixture(t, "")
	server := &process{}
	h.process(server)
	other := h.mcpClient("mine")
	head := func() string {
		var row mcp.Row
		other.must("wait_for_message", nil, &row)
		return row.Activity
	}

	me := h.startEvents("mine")
	start := me.stream(nil)
	h.sendTo("mine", "one")
	first := head() // the event is in the log
	me.kill()

	me = h.startEvents("mine")
	if got := me.stream(start); got != start {
		t.Errorf("confirmed at %s, want %s", got, start)
	}
	if got, _ := me.event(); got != first {
		t.Errorf("event %s, want %s", got, first)
	}
	me.kill() // its client has got the event, and has neither kept the cursor nor read the message

	me = h.startEvents("mine")
	me.stream(start)
	got, cursor := me.event()
	if got != first || head() != first {
		t.Errorf("event %s again and %s at the head, want %s", got, head(), first)
	}

	server.kill()
	h.process(server, "--listen", strings.TrimPrefix(server.url, "http://"))
	h.sendTo("mine", "two")
	h.popAt(other, first)
	second := head()
	got, after := me.event()
	if got != second {
		t.Errorf("event %s after the restart of the server, want %s", got, second)
	}
	me.kill()

	// With the cursor after an event, that event does not come again.
	h.popAt(other, second)
	h.sendTo("mine", "three")
	third := head()
	for at, want := range map[string]string{cursor: second, after: third} {
		me = h.startEvents("mine")
		me.stream(at)
		if got, _ := me.event(); got != want {
			t.Errorf("event %s after the cursor %s, want %s", got, at, want)
		}
		me.kill()
	}
}
