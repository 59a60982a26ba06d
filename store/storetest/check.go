package storetest

import (
	"context"

	"mailroom/doctor"
)

// Check runs doctor.Check for tests and returns one sentence per violation.
func Check(ctx context.Context, v doctor.Viewer) ([]string, error) {
	report, err := doctor.Check(ctx, v)
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.String())
	}
	return found, err
}
