package engine_test

import (
	"context"
	"fmt"
	"time"

	"mailroom"
)

// A timer is a ticket that time decides. The run waits without a process, so a week costs no more than a
// moment, and a restart in between does not start the time again: it counts from the first request.
func Example_timer() {
	reminder := func(ctx context.Context, s mailroom.Session) error {
		_, err := s.Wait(ctx, false, mailroom.Ask{
			Name: "pause", Kind: mailroom.TicketTimer, After: 10 * time.Millisecond,
		})
		if err != nil {
			return err // mailroom.ErrParked, the first time
		}
		return s.Stream(ctx, "Time for tea.")
	}
	o := openFixture(map[string]mailroom.AgentFunc{"reminder": reminder})
	defer o.close()

	fmt.Println(o.reply(o.send("kitchen", "reminder", "remind me")))
	// Output: Time for tea.
}
