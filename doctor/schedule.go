package doctor

import (
	"encoding/json"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// checkSchedule checks that a schedule which waits for its next time has a message to itself on its way that comes by then:
// without one it never sends again. It may have further messages, which come too early and do nothing. Package
// schedule/plan, which is above this one, writes the state.
func checkSchedule(p *checker) error {
	if reserved.Prefix(p.t.ID) != reserved.Schedule || reserved.IsBook(p.t.ID) {
		return nil
	}
	var state struct {
		Tick   time.Time
		Ended  bool
		Paused json.RawMessage
	}
	raw := p.t.State[reserved.Scheduler]
	if json.Unmarshal(raw, &state) != nil || state.Tick.IsZero() || state.Ended || len(state.Paused) > 0 {
		return nil // without a state it is not made yet
	}
	late := p.t.HeldAt.Sub(state.Tick) > time.Second
	if p.t.Current != "" || !p.t.HeldAt.IsZero() && !late {
		return nil
	}
	rows, err := p.r.Runs(store.RunQuery{Thread: p.t.ID, Limit: 1, Statuses: []mailroom.Status{mailroom.StatusQueued},
		Set: store.RunsQueued})
	if err != nil || len(rows) > 0 { // the next run of the thread looks at all times
		return err
	}
	owner, name := reserved.SchedulePlace(p.t.ID)
	command := []string{"mailroom schedule resume", name}
	if owner != auth.Operator {
		command = append(command, "--owner", owner)
	}
	what := "has no message to itself that wakes it at %s"
	if late {
		what = "has no message to itself that wakes it at %s; the next one comes later"
	}
	p.bad(Schedule, "schedule %q "+what+": run `%s`", name, at(state.Tick), strings.Join(command, " "))
	return nil
}
