package storetest

import (
	"context"

	"mailroom/doctor"
)

// Check verifies the invariants of every thread in a store, live or stopped, and
// returns one sentence per violation. It is doctor.Check for tests.
func Check(ctx context.Context, v doctor.Viewer) ([]string, error) {
	report, err := doctor.Check(ctx, v)
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.String())
	}
	return found, err
}
