package cli

import (
	"context"
	"time"

	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/client"
	"mailroom/protocol/bell"
	"mailroom/protocol/mcp"
)

// noteTimeout bounds the question how many messages wait: the person waits for the hook.
const noteTimeout = 3 * time.Second

// hookNote is what a hook of gemini prints: a note for the model beside what the user says.
type hookNote struct {
	Output struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}

// printNote is `mailroom inbox wait --note`. It never fails: gemini would not pass on what its user has said.
func printNote(ctx context.Context, con *command.Console, thread string) error {
	n, err := countWaiting(ctx, con, thread)
	if err != nil {
		con.Infof("the inbox is not known: %v", err)
	}
	if n == 0 || con.Env("MAILROOM_THREAD") != "" { // a run of Mailroom
		return con.PrintJSON(struct{}{})
	}
	var note hookNote
	note.Output.Event, note.Output.Context = "BeforeAgent", bell.Notice(1, thread, n)
	return con.PrintJSON(note)
}

func countWaiting(ctx context.Context, con *command.Console, thread string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	server, err := endpoint.Find(con)
	if err != nil {
		return 0, err
	}
	return mcp.NewInbox(server.Client(client.WithMaxAttempts(1)), thread).Waiting(ctx)
}
