package client_test

import (
	"context"
	"fmt"

	"mailroom"
	"mailroom/api"
)

// Agents that share files reserve them, so that two do not edit one at the same time. The holder writes with the
// fencing token, and notifies the others when it is done.
func ExampleProjects() {
	s := startServer(nil)
	defer s.close()
	p, ctx := s.client.Projects, context.Background()

	_, err := p.Reserve(ctx, api.Reserve{Project: "web", Holder: "ann", Names: []string{"src/**"}})
	check(err)
	_, err = p.Reserve(ctx, api.Reserve{Project: "web", Holder: "bob", Names: []string{"src/main.go"}})
	fmt.Println("bob:", mailroom.CodeOf(err))

	_, err = p.ReleaseNames(ctx, api.ReleaseNames{Project: "web", Holder: "ann", Names: []string{"src/**"}})
	check(err)
	_, err = p.Notify(ctx, api.Notify{Project: "web", From: "ann", To: []string{"bob"}, Event: "released src"})
	check(err)

	news, err := p.TakeNotifications(ctx, api.Take{Project: "web", Agent: "bob"})
	check(err)
	fmt.Println("bob reads:", news[0].Event, "from", news[0].From)
	out, err := p.Reserve(ctx, api.Reserve{Project: "web", Holder: "bob", Names: []string{"src/main.go"}})
	check(err)
	fmt.Println("bob has", out.Granted[0].Name)
	// Output:
	// bob: conflict
	// bob reads: released src from ann
	// bob has src/main.go
}
