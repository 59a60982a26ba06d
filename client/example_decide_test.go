package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// Answer what agents ask. A list of the open tickets is the inbox of a person. An approval names the digest of
// the question that the person saw, so that it approves nothing else.
func ExampleClient_Decide() {
	s := startServer(map[string]mailroom.AgentFunc{"deployer": func(ctx context.Context, s mailroom.Session) error {
		tickets, err := s.Wait(ctx, false, mailroom.Ask{
			Name: "deploy", Kind: mailroom.TicketApproval, Prompt: "May I deploy?",
			Action: "deploy", Arguments: json.RawMessage(`{"to":"production"}`),
		})
		if err != nil {
			return err // the run waits, without a process or a connection
		}
		return s.Stream(ctx, "The answer was: "+string(tickets[0].Decision))
	}})
	defer s.close()
	c, ctx := s.client, context.Background()
	sent, err := c.Submit(ctx, api.Submit{Thread: "releases", Agent: "deployer", Text: "ship it"})
	check(err)
	for _, err := range c.Follow(ctx, client.FollowQuery{Run: sent.Run, Until: client.UntilWaiting}) {
		check(err) // ends when the run waits
	}

	open, err := client.Collect(ctx, c.Tickets, client.ListQuery{Q: "state:open kind:approval"})
	check(err)
	for _, t := range open {
		fmt.Println(*t.Prompt, *t.Action, string(t.Arguments))
		_, err := c.Decide(ctx, t.ID, api.Decision{Decision: mailroom.VerdictApprove, Digest: t.Digest})
		check(err)
	}
	run, err := c.WaitRun(ctx, sent.Run, time.Minute)
	check(err)
	fmt.Println(run.Status)
	// Output:
	// May I deploy? deploy {"to":"production"}
	// completed
}
