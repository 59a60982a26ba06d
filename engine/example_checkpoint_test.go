package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mailroom"
)

// An attempt that fails is repeated from the top of the agent, with the checkpoint of its last step. What was
// streamed before that step is in the log already, and is not written again.
func Example_checkpoint() {
	report := func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Checkpoint == nil {
			if err := s.Stream(ctx, "I have read the files."); err != nil {
				return err
			}
			if err := s.Append(ctx, mailroom.Step{Name: "read", Checkpoint: json.RawMessage(`"read"`)}); err != nil {
				return err
			}
			return errors.New("the connection to the model broke") // transient: the run is retried
		}
		return s.Stream(ctx, "Nothing is missing.")
	}
	o := openFixture(map[string]mailroom.AgentFunc{"report": report})
	defer o.close()

	run := o.send("audit", "report", "check the files")
	fmt.Println(o.reply(run))
	fmt.Println(o.run(run).Attempt, "attempts")
	// Output:
	// Nothing is missing.
	// 2 attempts
}
