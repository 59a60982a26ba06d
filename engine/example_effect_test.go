package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
)

// What an agent does to the outside world it does under a name. The value is
// remembered: the next attempt, which enters the agent from its top, gets it
// without a call.
func Example_effect() {
	calls := 0
	shop := func(ctx context.Context, s mailroom.Session) error {
		charge := mailroom.Effect{Name: "charge", Input: json.RawMessage(`{"eur":5}`)}
		receipt, err := s.Do(ctx, charge, func(_ context.Context, key string) (json.RawMessage, error) {
			calls++ // a real one hands key to the bank, which recognises a repeat by it
			return json.Marshal("receipt 7")
		})
		if err != nil {
			return err
		}
		if s.Run().Attempt == 1 {
			return errors.New("the network is gone") // the run is tried again
		}
		step := mailroom.Step{Name: "charged", Checkpoint: receipt}
		if err := s.Append(ctx, step); err != nil {
			return err
		}
		return s.Stream(ctx, fmt.Sprintf("You have %s.", receipt))
	}
	o := openOffice(map[string]mailroom.AgentFunc{"shop": shop})
	defer o.close()

	fmt.Println(o.reply(o.send("orders", "shop", "one book")))
	fmt.Println("calls:", calls)
	// Output:
	// You have "receipt 7".
	// calls: 1
}
