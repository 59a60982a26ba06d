package client_test

import (
	"context"
	"fmt"
	"log"

	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// Send a message and print the reply while it is written. The offset of a delta shows which text is a
// repeat after a lost connection.
func ExampleClient_Follow() {
	ctx := context.Background()
	c := client.New("http://127.0.0.1:8420", "TOKEN")
	sent, err := c.Submit(ctx, api.Submit{Thread: "notes", Text: "What is new?"})
	if err != nil {
		log.Fatal(err)
	}
	message, printed := "", 0
	for ev, err := range c.Follow(ctx, client.FollowQuery{Run: sent.Run, Until: client.UntilSettled}) {
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case ev.Delta != nil:
			if ev.Delta.Message != message {
				message, printed = ev.Delta.Message, 0
			}
			if known := printed - ev.Delta.Offset; known >= 0 && known < len(ev.Delta.Text) {
				fmt.Print(ev.Delta.Text[known:])
				printed += len(ev.Delta.Text) - known
			}
		case ev.Entry != nil && ev.Entry.Kind == entry.KindCompleted:
			fmt.Println()
		}
	}
}

// Store the ID of the last event to resume after a restart.
func ExampleClient_Follow_resume() {
	ctx := context.Background()
	c := client.New("http://127.0.0.1:8420", "TOKEN")
	after := "12" // the stored ID
	for ev, err := range c.Follow(ctx, client.FollowQuery{Thread: "notes", After: after}) {
		if err != nil {
			log.Fatal(err) // the server refused, or was unreachable for longer than WithRetryTimeout
		}
		if ev.Gap != nil {
			log.Printf("entries %d to %d are gone", ev.Gap.After+1, ev.Gap.Oldest-1)
		}
		if ev.Entry != nil {
			fmt.Println(ev.Entry.Seq, ev.Entry.Kind)
			after = ev.ID
		}
		if ev.Entry != nil && ev.Entry.Kind == entry.KindFailed {
			break // closes the connection
		}
	}
}

// Follow all threads that the token may see.
func ExampleClient_Stream() {
	c := client.New("http://127.0.0.1:8420", "TOKEN")
	for ev, err := range c.Stream(context.Background(), "") {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Entry != nil {
			fmt.Println(ev.Thread, ev.Entry.Kind)
		}
	}
}
