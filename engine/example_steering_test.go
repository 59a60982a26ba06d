package engine_test

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// A message with mode steer reaches the running run. The agent reads it between its steps; a
// message that it does not read becomes a separate run.
func Example_steering() {
	painter := func(ctx context.Context, s mailroom.Session) error {
		colour := "blue"
		if err := s.Append(ctx, mailroom.Step{Name: "begin", Progress: 0.1}); err != nil {
			return err
		}
		for colour == "blue" { // the work, stroke by stroke
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			steered, err := s.Steered(ctx)
			if err != nil {
				return err
			}
			for _, m := range steered {
				colour = m.Text
			}
		}
		return s.Stream(ctx, "The door is "+colour+".")
	}
	o := openFixture(map[string]mailroom.AgentFunc{"painter": painter})
	defer o.close()

	run := o.send("house", "painter", "paint the door")
	o.until(run, entry.KindStep)
	out, err := o.ledger.Submit(context.Background(), thread.Submit{
		Thread: "house", Mode: mailroom.ModeSteer, ExpectRun: run,
		Messages: []thread.NewMessage{{Parts: mailroom.Text("red")}},
	})
	check(err)
	fmt.Println(out.Disposition)
	fmt.Println(o.reply(run))
	// Output:
	// steered
	// The door is red.
}
