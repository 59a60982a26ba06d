package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// screen prints whole lines of steps that run in parallel.
type screen struct {
	began time.Time

	mu  sync.Mutex // one writer at a time
	out io.Writer
}

func newScreen(out io.Writer) *screen { return &screen{began: time.Now(), out: out} }

// say prints a line of the suite itself, which begins with the time since its start.
func (s *screen) say(format string, args ...any) {
	s.print(fmt.Sprintf("[%5s] %s", clock(time.Since(s.began)), fmt.Sprintf(format, args...)))
}

// print prints text as it is, in one piece, with a newline at its end.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintln(s.out, strings.TrimSuffix(text, "\n")) // if the terminal is gone, the text has no other place
}

// clock formats a duration as minutes and seconds.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// tail keeps the last lines of an output, up to a number of bytes.
type tail struct {
	most  int
	lines []string
	bytes int
	cut   bool
}

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	t.bytes += len(line)
	for t.bytes > t.most && len(t.lines) > 1 {
		t.bytes -= len(t.lines[0])
		t.lines, t.cut = t.lines[1:], true
	}
}

// String returns the lines, each with a newline at its end.
func (t *tail) String() string {
	var text strings.Builder
	if t.cut {
		text.WriteString("… (earlier lines are left out)\n")
	}
	for _, line := range t.lines {
		text.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			text.WriteByte('\n')
		}
	}
	return text.String()
}
