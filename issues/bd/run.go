package bd

import (
	"context"
	"encoding/json"
	"strings"

	"mailroom/issues/tracker"
)

// Run describes the current or latest run that works on an issue.
type Run struct {
	Lines []string        // text to print below the issue
	JSON  json.RawMessage // member "run" of the issue with --json
}

// runOf returns the run of an issue, or nil.
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
	return m.out.print("", block(strings.Join(run.Lines, "\n")))
}
