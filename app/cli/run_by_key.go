package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/client"
	"mailroom/internal/display"
)

// runByKeyTimeout limits the request of [RunByKey], so that an unreachable server does not delay
// the command.
const runByKeyTimeout = time.Second

// RunByKey returns the run that was submitted to a thread with this key, as lines for a person and as JSON. Commands
// show the run only as an extra, so RunByKey returns nil on any error.
func RunByKey(ctx context.Context, con *command.Console, thread, key string) (lines []string, raw json.RawMessage) {
	server, err := endpoint.Find(con)
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, runByKeyTimeout)
	defer cancel()
	q := "thread:" + client.Quote(thread) + " key:" + client.Quote(key)
	page, err := server.Client().Runs(ctx, client.ListQuery{Q: q, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return nil, nil
	}
	run := page.Items[0]
	if raw, err = json.Marshal(run); err != nil {
		return nil, nil
	}
	return runLines(con, run), raw
}

// runLines formats a run, with commands that show more.
func runLines(con *command.Console, run api.Run) []string {
	lines := []string{fmt.Sprintf("Run %s of %s: %s, attempt %d", run.ID, run.Agent, run.Status, run.Attempt)}
	if first, _, _ := strings.Cut(strings.TrimSpace(deref(run.Reply)), "\n"); first != "" {
		lines = append(lines, "  reply: "+command.Shorten(first, 100))
	}
	if run.Error != nil {
		lines = append(lines, fmt.Sprintf("  %s: %s", run.Error.Class, display.Line(run.Error.Message)))
	}
	switch run.Status {
	case mailroom.StatusWaiting:
		lines = append(lines, "  waits for a decision: "+con.CommandLine("tickets"))
	case mailroom.StatusFailed, mailroom.StatusCancelled:
		lines = append(lines, "  retry: "+con.CommandLine("run", "retry", run.ID))
	}
	return append(lines, "  show: "+con.CommandLine("attach", run.Thread))
}
