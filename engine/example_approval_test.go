package engine_test

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom"
	"mailroom/entry"
	"mailroom/thread"
)

// A run that needs an approval parks: it holds no worker while it waits, and resumes with the
// decision after a second, a restart or a week. The decision carries the digest of what was shown,
// so that it cannot approve anything else.
func Example_approval() {
	deployer := func(ctx context.Context, s mailroom.Session) error {
		tickets, err := s.Wait(ctx, false, mailroom.Ask{
			Name: "leave", Kind: mailroom.TicketApproval, Prompt: "May I deploy?",
			Action: "deploy", Arguments: json.RawMessage(`{"to":"production"}`),
		})
		if err != nil {
			return err // mailroom.ErrParked, the first time
		}
		if tickets[0].Decision != mailroom.VerdictApprove {
			return s.Stream(ctx, "Then not.")
		}
		return s.Stream(ctx, "Deployed.")
	}
	o := openFixture(map[string]mailroom.AgentFunc{"deployer": deployer})
	defer o.close()

	run := o.send("releases", "deployer", "ship it")
	var asked mailroom.Ticket
	check(o.until(run, entry.KindTicketOpened).Decode(&asked))
	fmt.Println(asked.Prompt, asked.Action, string(asked.Arguments))

	_, err := o.ledger.Decide(context.Background(), thread.Decision{
		Ticket: asked.ID, Verdict: mailroom.VerdictApprove, Digest: asked.Digest, By: "anna",
	})
	check(err)
	fmt.Println(o.reply(run))
	// Output:
	// May I deploy? deploy {"to":"production"}
	// Deployed.
}
