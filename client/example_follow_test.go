package client_test

import (
	"context"
	"fmt"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// Print the reply while it is written. Text that was live is in the log afterwards, and a reader can get a piece
// of it twice after a lost connection. The offset of a delta shows which text is a repeat.
func ExampleClient_Follow() {
	s := startServer(map[string]mailroom.AgentFunc{"echo": echo})
	defer s.close()
	c, ctx := s.client, context.Background()

	sent, err := c.Submit(ctx, api.Submit{Thread: "notes", Text: "What is new?"})
	check(err)
	printed := 0
	show := func(offset int, text string) {
		if known := printed - offset; known >= 0 && known < len(text) {
			fmt.Print(text[known:])
			printed += len(text) - known
		}
	}
	for ev, err := range c.Follow(ctx, client.FollowQuery{Run: sent.Run, Until: client.UntilSettled}) {
		check(err)
		switch {
		case ev.Delta != nil:
			show(ev.Delta.Offset, ev.Delta.Text)
		case ev.Entry != nil && ev.Entry.Kind == entry.KindMessage:
			var m mailroom.Message
			check(ev.Entry.Decode(&m))
			if m.Role == mailroom.RoleAssistant {
				show(0, m.Text) // what was not live, such as the text before this program started
			}
		case ev.Entry != nil && ev.Entry.Kind == entry.KindCompleted:
			fmt.Println()
		}
	}
	// Output: What is new?
}

// A program that stores the ID of the last event resumes behind it after a restart: it gets every entry once,
// in order.
func ExampleClient_Follow_resume() {
	s := startServer(map[string]mailroom.AgentFunc{"echo": echo})
	defer s.close()
	c, ctx := s.client, context.Background()
	send := func(text string) {
		_, err := c.Submit(ctx, api.Submit{Thread: "notes", Text: text})
		check(err)
	}

	stored := "" // the position that the program keeps
	read := func() {
		for ev, err := range c.Follow(ctx, client.FollowQuery{Thread: "notes", After: stored, Until: client.UntilSettled}) {
			check(err) // the server refused, or was unreachable for longer than WithRetryTimeout
			if ev.Gap != nil {
				fmt.Printf("entries %d to %d are gone\n", ev.Gap.After+1, ev.Gap.Oldest-1)
			}
			if ev.Entry != nil {
				fmt.Println(ev.Entry.Seq, ev.Entry.Kind)
				stored = ev.ID
			}
		}
	}
	send("one")
	read()
	fmt.Println("the program restarts")
	send("two")
	read()
	// Output:
	// 1 message
	// 2 run.queued
	// 3 run.started
	// 4 message
	// 5 run.completed
	// the program restarts
	// 6 message
	// 7 run.queued
	// 8 run.started
	// 9 message
	// 10 run.completed
}

// Follow all threads that the token may see with one connection, for a dashboard or a bridge.
func ExampleClient_Stream() {
	s := startServer(map[string]mailroom.AgentFunc{"echo": echo})
	defer s.close()
	c, ctx := s.client, context.Background()

	submitted := make(chan struct{})
	go func() {
		defer close(submitted)
		<-s.opened // with "", a stream begins now: what came before is not in it
		for _, thread := range []string{"anna", "bert"} {
			sent, err := c.Submit(ctx, api.Submit{Thread: thread, Text: "Good morning"})
			check(err)
			_, err = c.WaitRun(ctx, sent.Run, time.Minute)
			check(err)
		}
	}()
	replies := 0
	for ev, err := range c.Stream(ctx, "") {
		check(err)
		if ev.Entry != nil && ev.Entry.Kind == entry.KindCompleted {
			fmt.Println(ev.Thread, "has a reply")
			replies++
		}
		if replies == 2 {
			break // closes the connection
		}
	}
	<-submitted
	// Output:
	// anna has a reply
	// bert has a reply
}
