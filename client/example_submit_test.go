package client_test

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// Send a message and wait for the reply. The key makes the call safe to repeat: a program that does not know
// whether its first call arrived sends it again, and gets the same run.
func ExampleClient_Submit() {
	s := startServer(map[string]mailroom.AgentFunc{"echo": echo})
	defer s.close()
	c, ctx := s.client, context.Background()

	submit := api.Submit{Thread: "notes", Text: "What is new?", Key: "question 1"}
	sent, err := c.Submit(ctx, submit)
	check(err)
	again, err := c.Submit(ctx, submit)
	check(err)
	fmt.Println("the same run:", sent.Run == again.Run)

	run, err := c.WaitRun(ctx, sent.Run, time.Minute)
	check(err)
	page, err := c.Messages(ctx, "notes", client.MessagesQuery{Limit: 10})
	check(err)
	fmt.Println(run.Status)
	for _, m := range page.Items {
		fmt.Printf("%s: %s\n", m.Role, m.Text)
	}
	// Output:
	// the same run: true
	// completed
	// user: What is new?
	// assistant: What is new?
}

// A refusal has the code that the server gave.
func ExampleClient_Run_notFound() {
	s := startServer(nil)
	defer s.close()
	c := s.client

	_, err := c.Run(context.Background(), "no-such-run")
	fmt.Println(mailroom.CodeOf(err))
	// Output: not_found
}
