package client_test

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
)

// A list comes in pages, and Each reads them all. The filter has the words of `mailroom runs` and of the console.
func ExampleEach() {
	s := startServer(map[string]mailroom.AgentFunc{"echo": echo})
	defer s.close()
	c, ctx := s.client, context.Background()
	for _, text := range []string{"one", "two", "three"} {
		sent, err := c.Submit(ctx, api.Submit{Thread: text, Text: text})
		check(err)
		_, err = c.WaitRun(ctx, sent.Run, time.Minute)
		check(err)
	}

	query := client.ListQuery{Q: "status:completed agent:echo", Limit: 2} // two a page
	for run, err := range client.Each(ctx, c.Runs, query) {
		check(err)
		fmt.Println(run.Thread, run.Status)
	}
	// Output:
	// three completed
	// two completed
	// one completed
}

// Find messages by their words. The index follows the log within seconds: Complete says whether every message
// can be found.
func ExampleClient_Search() {
	s := startServer(map[string]mailroom.AgentFunc{"echo": echo})
	defer s.close()
	c, ctx := s.client, context.Background()
	for _, text := range []string{"the invoice of March", "the invoice of April"} {
		_, err := c.Submit(ctx, api.Submit{Thread: "mail", Agent: "clerk", Text: text})
		check(err)
	}
	for read := 1; read > 0; { // a server does this by itself
		var err error
		read, err = s.ledger.IndexMessages(ctx)
		check(err)
	}

	found, err := c.Search(ctx, client.SearchQuery{Q: "april invoice"})
	check(err)
	for _, m := range found.Items {
		fmt.Printf("%s, entry %d: %s\n", m.Thread, m.Seq, m.Excerpt)
	}
	fmt.Println(found.Complete)
	// Output:
	// mail, entry 3: the invoice of April
	// true
}
