package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/thread"
)

// A worker in another process claims runs and writes under its claims. A worker in Go uses package worker, which
// does this with an engine; here are the calls themselves, for a worker in another language. examples/worker has
// one that renews its lease and obeys stops.
func ExampleWork() {
	s := startServer(nil)
	defer s.close()
	c, ctx := s.client, context.Background()
	sent, err := c.Submit(ctx, api.Submit{Thread: "t", Agent: "shouter", Text: "hello"})
	check(err)

	// Register, and then claim round by round. A claim whose answer was lost is repeated under its round.
	none := 0
	worker, err := c.Work.Claim(ctx, api.ClaimRequest{Agents: json.RawMessage(`["shouter"]`), Max: &none}, 0)
	check(err)
	claims, err := c.Work.Claim(ctx, api.ClaimRequest{Worker: worker.Worker, Round: 1}, 20*time.Second)
	check(err)

	for _, got := range claims.Claims {
		claim := mailroom.Claim{Thread: got.Run.Thread, Run: got.Run.ID, Attempt: got.Run.Attempt}
		reply := strings.ToUpper(got.Messages[0].Text)
		_, err := c.Work.Settle(ctx, claim, api.Settle{
			Number: got.Run.Steps + 1, Outcome: thread.OutcomeComplete, Text: reply,
		})
		check(err)
		// After the settle the claim is over: whatever still writes under it is refused.
		_, err = c.Work.Write(ctx, claim, api.Text{Text: "more"})
		fmt.Println(mailroom.CodeOf(err))
	}
	run, err := c.Run(ctx, sent.Run)
	check(err)
	fmt.Println(run.Status)
	check(c.Work.Leave(ctx, worker.Worker, []string{}))
	// Output:
	// lease_lost
	// completed
}
