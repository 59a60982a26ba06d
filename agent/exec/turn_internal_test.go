package exec

import (
	"strings"
	"testing"

	"mailroom/agent/exec/program"
)

// TestAnIncompleteLineCountsAsOutput matters for a slow program with a long line: the program is not idle, whether the
// line ends or becomes too long.
func TestAnIncompleteLineCountsAsOutput(t *testing.T) {
	l, piece := &runningTurn{}, []byte(strings.Repeat("x", 1<<20))
	for range 2 * program.MaxLine / len(piece) {
		if err := l.onOutput(t.Context(), piece); err != nil {
			t.Fatalf("part of a line: %v", err)
		}
	}
}
