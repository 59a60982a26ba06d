package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	watch "mailroom/channel/tracker"
	"mailroom/client"
	"mailroom/cmd/internal/bd"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/tracker"
)

// issueCommand is the tracker: what comes behind the word is bd's to read.
func (m *Main) issueCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "issue …",
		Short: "The tracker: issues in a file, the same as bd",
		Long: `The tracker: issues in a file that git carries. This is bd under another name; see
"mailroom issue --help" for its commands. It needs no server. If there is one, and it
gave the issue to an agent, "mailroom issue show" tells of the run too.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			bd.ShortLived()
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			t := bd.Main{
				Stdin: m.Stdin, Stdout: m.Stdout, Stderr: m.Stderr, Env: m.Env, Dir: dir, Name: "issue", Version: version().Version,
				RunOf: m.runOfIssue,
			}
			if t.Run(cmd.Context(), args) != exitDone {
				return &findingsError{} // which it has told
			}
			return nil
		},
	}
}

// issueRunTimeout is how long a server may take to tell of a run. Nobody waits for one
// that is not there.
const issueRunTimeout = time.Second

// runOfIssue asks the server for the run of an issue that was given to an agent.
// It is an addition: whatever is in its way, there is none.
func (m *Main) runOfIssue(ctx context.Context, it *tracker.Issue) *bd.Run {
	thread, key := watch.LastSubmit(config.TrackerChannel, it)
	if key == "" {
		return nil
	}
	d, err := m.findEndpoint()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, issueRunTimeout)
	defer cancel()
	page, err := client.New(d.url, d.token, client.WithHTTPClient(d.web)).Runs(ctx, client.ListQuery{Q: "thread:" + client.Quote(thread) + " key:" + client.Quote(key), Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return nil
	}
	run := page.Items[0]
	raw, err := json.Marshal(run)
	if err != nil {
		return nil
	}
	return &bd.Run{Lines: m.runLines(run), JSON: raw}
}

// runLines tells people of the run of an issue, and how to see more.
func (m *Main) runLines(run api.Run) []string {
	lines := []string{fmt.Sprintf("Run %s of %s: %s, attempt %d", run.ID, run.Agent, run.Status, run.Attempt)}
	if first, _, _ := strings.Cut(strings.TrimSpace(deref(run.Reply)), "\n"); first != "" {
		lines = append(lines, "  said: "+cut(first, 100))
	}
	if run.Error != nil {
		lines = append(lines, fmt.Sprintf("  %s: %s", run.Error.Class, oneLine(run.Error.Message)))
	}
	switch run.Status {
	case mailroom.StatusWaiting:
		lines = append(lines, "  waits for a decision: "+m.commandLine("tickets"))
	case mailroom.StatusFailed, mailroom.StatusCancelled:
		lines = append(lines, "  try it again: "+m.commandLine("run", "retry", run.ID))
	}
	return append(lines, "  see all of it: "+m.commandLine("attach", run.Thread))
}
