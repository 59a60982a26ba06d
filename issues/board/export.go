package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
)

// Reading a whole board for a tracker is bounded, and waits for short limits of the platform.
const (
	// MaxExport bounds the issues of one import.
	MaxExport = 5000
	// maxPatience bounds the pause that a read waits for, and maxPauses how often it does.
	maxPatience = 90 * time.Second
	maxPauses   = 5
)

// Patiently makes a read, and repeats it after a pause that the platform asks for. A longer one is an error that says
// when to try again.
func Patiently(ctx context.Context, read func() error) error {
	for n := 0; ; n++ {
		err := read()
		after, _ := httpcall.PauseOf(err)
		if failure, ok := err.(*mailroom.Failure); ok {
			err = failure.Err // its class is of no use to a person
		}
		switch {
		case err == nil || after == 0:
			return err
		case after > maxPatience || n == maxPauses:
			return fmt.Errorf("try again in %s, when the limit of the platform ends: %w",
				setting.FormatDuration(after.Round(time.Second)), err)
		}
		timer := time.NewTimer(after)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// ErrMany is the error of a board with too many issues for one import.
func ErrMany(place string) error {
	return fmt.Errorf("%s has more than %d issues to import; import without --closed, or a smaller board", place,
		MaxExport)
}

// TrackerType returns the type of an issue in a tracker that its labels, or the type that a board gives it, name.
func TrackerType(names ...string) string {
	for _, name := range names {
		switch name = strings.ToLower(name); {
		case slices.Contains([]string{"bug", "epic", "chore", "feature", "task"}, name):
			return name
		case name == "enhancement":
			return "feature"
		}
	}
	return "task"
}
