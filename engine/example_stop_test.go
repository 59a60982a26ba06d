package engine_test

import (
	"context"
	"errors"
	"fmt"

	"mailroom"
	"mailroom/entry"
)

// A run is stopped by the end of its context, whose cause says why. The agent has a moment to clean up. It need
// not store what it streamed: readers keep the text as a partial message.
func Example_stop() {
	novelist := func(ctx context.Context, s mailroom.Session) error {
		if err := s.Stream(ctx, "It was a dark"); err != nil {
			return err
		}
		if err := s.Append(ctx, mailroom.Step{Name: "begun"}); err != nil {
			return err
		}
		<-ctx.Done()
		fmt.Println("stopped by a person:", errors.Is(context.Cause(ctx), mailroom.ErrStopped))
		return context.Cause(ctx)
	}
	o := openFixture(map[string]mailroom.AgentFunc{"novelist": novelist})
	defer o.close()

	run := o.send("novel", "novelist", "write")
	o.until(run, entry.KindStep)
	_, err := o.ledger.Cancel(context.Background(), run, "anna")
	check(err)
	o.until(run, entry.KindCancelled)
	fmt.Println(o.run(run).Status)
	// Output:
	// stopped by a person: true
	// cancelled
}
