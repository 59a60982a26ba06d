package tracker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLongChainOfParentsTakesLinearTime reads a hostile file in which each issue is a child of the
// next one. Following the chain for each issue would take days.
func TestLongChainOfParentsTakesLinearTime(t *testing.T) {
	const n = 50_000
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text,
			`{"id":"x-%06d","title":"t","status":"open","dependencies":[{"depends_on_id":"x-%06d","type":"parent-child"}]}`+"\n",
			i, i+1)
	}
	tr, invalid := Parse(text.String())
	if found := tr.Ready(Filter{}, OrderPriority, time.Now()); len(found) != n || len(invalid) > 0 {
		t.Errorf("%d issues are ready, want %d", len(found), n)
	}
	if found := tr.BlockedIssues(); len(found) > 0 {
		t.Errorf("%d blocked issues", len(found))
	}
}
