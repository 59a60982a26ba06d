package bd

import (
	"context"
	"encoding/json"
	"strings"

	"mailroom/tracker"
)

// Run is what somebody knows of the run that works on an issue, or has worked on
// it last.
type Run struct {
	Lines []string        // for people, below the issue
	JSON  json.RawMessage // the member "run" of the issue under --json
}

// runOf asks for the run of an issue; nil if nobody knows of one.
func (m *Main) runOf(ctx context.Context, it *tracker.Issue) *Run {
	if m.RunOf == nil {
		return nil
	}
	return m.RunOf(ctx, it)
}

func (m *Main) printRun(ctx context.Context, it *tracker.Issue) error {
	run := m.runOf(ctx, it)
	if run == nil {
		return nil
	}
	return m.print("", block(strings.Join(run.Lines, "\n")))
}
