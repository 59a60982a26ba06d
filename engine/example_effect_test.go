package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
)

// An agent calls the outside world in a named effect. Its result is stored: the next attempt, which
// starts from the top of the agent, gets the result without a call.
func Example_effect() {
	calls := 0
	shop := func(ctx context.Context, s mailroom.Session) error {
		charge := mailroom.Effect{Name: "charge", Input: json.RawMessage(`{"eur":5}`)}
		receipt, err := s.Do(ctx, charge, func(_ context.Context, key string) (json.RawMessage, error) {
			calls++ // a real agent passes key to the bank, which detects repeats by it
			return json.Marshal("receipt 7")
		})
		if err != nil {
			return err
		}
		if s.Run().Attempt == 1 {
			return errors.New("network unreachable") // the run is retried
		}
		step := mailroom.Step{Name: "charged", Checkpoint: receipt}
		if err := s.Append(ctx, step); err != nil {
			return err
		}
		return s.Stream(ctx, fmt.Sprintf("You have %s.", receipt))
	}
	o := openFixture(map[string]mailroom.AgentFunc{"shop": shop})
	defer o.close()

	fmt.Println(o.reply(o.send("orders", "shop", "one book")))
	fmt.Println("calls:", calls)
	// Output:
	// You have "receipt 7".
	// calls: 1
}
