package main

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var updateRecording = flag.Bool("update-recording", false, "write docs/kill.svg again")

// writerConfig has an agent that repeats its input. Its first attempt stops after 42 bytes, until something kills it.
const writerConfig = `default_agent = "writer"
[agents.writer]
kind = "exec"
command = ["sh", "-c", "head -c 42; test $MAILROOM_ATTEMPT != 1 || cat gate; cat"]
`

// recordedText is what the recording asks for.
const recordedText = "All 372 checks pass, the release notes are written, and the tag is ready."

// TestTheRecordingOnTheFirstPageIsWhatTheProgramsPrint kills a server with SIGKILL during a reply in a terminal, as
// docs/kill.svg shows, and compares the picture with what the terminal got. The id of the run, the address and the pace
// are drawn.
func TestTheRecordingOnTheFirstPageIsWhatTheProgramsPrint(t *testing.T) {
	h := newFixture(t, writerConfig)
	p := &process{}
	h.process(p)
	address := strings.TrimPrefix(p.url, "http://")
	cmd := exec.Command("mailroom", "send", "--thread", "demo", recordedText)
	cmd.Env = append(os.Environ(), "MAILROOM_DATA="+string(h.dir))
	screen := terminal(t, cmd)
	var shown strings.Builder
	buf := make([]byte, 4096)
	for killed := false; ; {
		n, err := screen.Read(buf)
		shown.Write(buf[:n])
		if err != nil { // EIO: the command has ended
			break
		}
		if !killed {
			killed = true
			p.kill()
			h.process(p, "--listen", address)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, shown.String())
	}
	got := strings.ReplaceAll(shown.String(), "\r\n", "\n")
	// A slow machine adds that the server is away, and stores the text before the kill.
	got = regexp.MustCompile(`(?m)^(server |\(reply incomplete).*\n`).ReplaceAllString(got, "")
	got = regexp.MustCompile(`run [0-9a-f]{8}-[0-9a-f-]+`).ReplaceAllString(got, "run 01a227cd…")
	const file = "../../docs/kill.svg"
	want := drawRecording(strings.Split(strings.TrimSuffix(got, "\n"), "\n"))
	if *updateRecording {
		h.must(os.WriteFile(file, []byte(want), 0o644))
	}
	if drawn, err := os.ReadFile(file); err != nil || string(drawn) != want {
		t.Errorf("docs/kill.svg is old (%v): go test ./cmd/mailroom -run Recording -update-recording writes it; "+
			"the terminal shows\n%s", err, got)
	}
}

// terminal starts cmd in a terminal of its own and returns what reads its screen.
func terminal(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(cmd.Start(), tty.Close()); err != nil {
		t.Fatal(err)
	}
	return screen
}

// drawRecording returns two terminals as an animated SVG: that of the server, which is killed, and that of the command,
// with its output. A page without animation shows the last state.
func drawRecording(output []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	rows := 0
	row := func(y int, at float64, class, text string) {
		rows++
		line(`<text class="%s" style="animation-delay:%.1fs" x="22" y="%d">%s</text>`, class, at, y, html.EscapeString(text))
	}
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 312" role="img" ` +
		`aria-label="The server is killed during a reply; the command stays, and the reply goes on">`)
	line(`<style>
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre;
  animation: show 0.01s both }
rect { fill: #f6f8fa; stroke: #d1d9e0 } .t { font: 600 12px system-ui, sans-serif; animation: none; fill: #59636e }
.c { font-weight: 600 } .bad { fill: #cf222e; font-weight: 600 } .note { fill: #59636e } .ok { fill: #1a7f37 }
@keyframes show { from { opacity: 0 } to { opacity: 1 } }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } rect { fill: #0d1117; stroke: #3d444d } .t, .note { fill: #9198a1 }
.bad { fill: #f85149 } .ok { fill: #3fb950 }
}
@media (prefers-reduced-motion: reduce) { text { animation: none } }
</style>`)
	line(`<rect x="10" y="10" width="740" height="142" rx="6"/><rect x="10" y="162" width="740" height="140" rx="6"/>`)
	line(`<text class="t" x="22" y="30">terminal 1: the server</text>`)
	line(`<text class="t" x="22" y="182">terminal 2: you</text>`)
	const listening = "listening on http://127.0.0.1:8420"
	row(54, 0, "c", "$ mailroom serve")
	row(74, 0.8, "note", listening)
	row(94, 4.2, "bad", "Killed            # kill -9 $(mailroom status --pid), in the middle of the reply")
	row(116, 6, "c", "$ mailroom serve")
	row(136, 6.8, "note", listening)
	row(206, 1.6, "c", `$ mailroom send --thread demo "$(cat task.txt)"`)
	at, y := 2.4, 228
	for i, text := range output {
		class := ""
		switch {
		case strings.HasPrefix(text, "run "):
			class = "note"
		case i == len(output)-1:
			class = "ok"
		}
		row(y, at, class, text)
		at, y = at+2.4, y+22
	}
	row(y, at, "c", "$")
	line(`</svg>`)
	return b.String()
}
