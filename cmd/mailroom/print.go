package main

import (
	"fmt"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/datadir"
	"mailroom/store"
)

func printRetryHint(con *console.Console, key string) {
	con.Infof("the message may have been accepted; retry with --key %s to avoid a duplicate", key)
}

func printDetached(con *console.Console, again string) {
	con.Infof("detached; nothing was cancelled. To show it again:\n  %s", again)
}

// printListening prints the server's address and the next commands.
func printListening(con *console.Console, url string, dir datadir.Dir) {
	con.Infof("listening on %s, data folder %s\nnext, in another terminal:\n  %s", url, dir, con.CommandLine("send", "hello"))
	con.Infof("or open %s/chat in a browser and paste the token from %s", url, dir.TokenFile())
}

// printBridging prints the bridge's address and how to show its state.
func printBridging(con *console.Console, url string, dir datadir.Dir) {
	con.Infof("listening on %s, data folder %s\nto show its state, in another terminal:\n  %s", url, dir, con.CommandLine("channels"))
}

func printExposed(con *console.Console) {
	con.Infof("warning: this address is reachable from other machines without encryption: restrict access to the proxy")
}

// printConnectionState reports that the server became unreachable (err is set) or reachable again.
// A partially printed line continues on the next line.
func printConnectionState(con *console.Console, err error) {
	if con.MidLine && console.IsTerminal(con.Stdout) && console.IsTerminal(con.Stderr) {
		con.Infof("")
		con.MidLine = false
	}
	if err != nil {
		con.Infof("server unreachable; retrying (Ctrl-C detaches and cancels nothing)")
		return
	}
	con.Infof("server reachable again")
}

func printSubmitted(con *console.Console, s store.Submitted, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(s)
	}
	rows := [][]string{{"thread", s.Thread}, {"run", s.Run}, {"message", s.Message}, {"status", string(s.Status)}}
	if s.Disposition != store.DispositionQueued {
		rows = append(rows, []string{"disposition", string(s.Disposition)})
	}
	return con.PrintTable(rows)
}

func printThreads(con *console.Console, page api.Page[api.Thread], output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(page)
	}
	rows := [][]string{{"THREAD", "AGENT", "STATUS", "QUEUED", "ENTRIES", "UPDATED"}}
	for _, t := range page.Items {
		rows = append(rows, []string{
			t.ID, t.Agent, t.Status, fmt.Sprint(t.Queued), fmt.Sprint(t.LastSeq), con.When(&t.UpdatedAt),
		})
	}
	return con.PrintList(rows, page.Next, `no threads yet; create one with: mailroom send "hello"`)
}

// threadView is the JSON output of threads show: the thread's fields, and the last
// messages of its transcript in reading order.
type threadView struct {
	api.Thread
	Messages []mailroom.Message `json:"messages"`
}

func printThread(con *console.Console, t threadView, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(t)
	}
	rows := [][]string{
		{"thread", t.ID}, {"agent", t.Agent}, {"status", t.Status}, {"queued", fmt.Sprint(t.Queued)},
		{"active run", orDash(t.ActiveRun)}, {"latest run", orDash(t.LatestRun)}, {"parent", orDash(t.Parent)},
		{"entries", fmt.Sprintf("%d to %d", t.OldestSeq, t.LastSeq)},
		{"created", con.When(&t.CreatedAt)}, {"updated", con.When(&t.UpdatedAt)},
	}
	if err := con.PrintTable(rows); err != nil {
		return err
	}
	for _, msg := range t.Messages {
		note := ""
		if msg.Partial {
			note = ", incomplete"
		} else if msg.State != mailroom.MessageDone {
			note = ", " + msg.State
		}
		err := con.Printf("\n%s (%d, %s%s)\n%s\n", msg.Role, msg.Seq, con.When(&msg.CreatedAt), note, con.Escape(content(msg)))
		if err != nil {
			return err
		}
	}
	return nil
}

func printRuns(con *console.Console, page api.Page[api.Run], output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(page)
	}
	rows := [][]string{{"RUN", "THREAD", "AGENT", "STATUS", "ATTEMPT", "CREATED", "DETAIL"}}
	for _, r := range page.Items {
		rows = append(rows, []string{
			r.ID, r.Thread, r.Agent, string(r.Status), fmt.Sprint(r.Attempt), con.When(&r.CreatedAt), console.Shorten(detail(r), 60),
		})
	}
	return con.PrintList(rows, page.Next, "no runs yet")
}

func printRun(con *console.Console, r api.Run, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(r)
	}
	return con.PrintTable([][]string{
		{"run", r.ID}, {"thread", r.Thread}, {"agent", agentLabel(r.Agent, r.AgentVersion)}, {"status", status(r)},
		{"attempt", fmt.Sprint(r.Attempt)}, {"failures", fmt.Sprintf("%d of %d", r.Failures, r.MaxAttempts)}, {"crashes", fmt.Sprint(r.Crashes)},
		{"worker", orDash(r.Worker)}, {"key", orDash(r.Key)}, {"parent", orDash(r.Parent)}, {"via", r.Origin.Via},
		{"steps", fmt.Sprint(r.Steps)}, {"progress", percent(r.Progress)}, {"waits for", waitsFor(r)}, {"usage", usage(r.Usage)},
		{"created", con.When(&r.CreatedAt)}, {"started", con.When(r.StartedAt)}, {"finished", con.When(r.FinishedAt)},
		{"detail", detail(r)},
	})
}

// printChanged prints a run that was cancelled or queued again.
func printChanged(con *console.Console, r api.Run, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(r)
	}
	return con.PrintTable([][]string{{r.ID, status(r)}})
}

func printInterrupted(con *console.Console, i api.Interrupted, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(i)
	}
	var rows [][]string
	for _, run := range i.Superseded {
		rows = append(rows, []string{run, "superseded"})
	}
	if i.Stopping != nil {
		rows = append(rows, []string{*i.Stopping, "stopping"})
	}
	if len(rows) == 0 {
		con.Infof("nothing was queued or running")
	}
	return con.PrintTable(rows)
}

func printConfig(con *console.Console, c *config.Config, reveal bool, output console.Format) error {
	text := []byte(c.TOML(reveal))
	if output == console.FormatJSON {
		var err error
		if text, err = c.JSON(reveal); err != nil {
			return err
		}
	}
	return con.Printf("%s", text)
}

func printVersion(con *console.Console, v versionInfo, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(v)
	}
	line := "mailroom " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision + ")"
	}
	return con.Printf("%s %s\n", line, v.Go)
}

func status(r api.Run) string {
	if r.Stopping {
		return string(r.Status) + ", stopping"
	}
	return string(r.Status)
}

// detail returns the most useful fact about a run beside its status.
func detail(r api.Run) string {
	switch {
	case r.Error != nil:
		return fmt.Sprintf("%s: %s", r.Error.Class, r.Error.Message)
	case r.Reason != nil:
		return string(*r.Reason)
	case !r.Status.Finished() && r.Progress > 0:
		return percent(r.Progress) + " done"
	case r.Reply != nil:
		return *r.Reply
	}
	return "-"
}

func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

func waitsFor(r api.Run) string {
	if r.Wait == nil {
		return "-"
	}
	return r.Wait.Until + " of " + strings.Join(r.Wait.Tickets, " ")
}

func usage(u *api.Usage) string {
	if u == nil || *u == (api.Usage{}) {
		return "-"
	}
	return fmt.Sprintf("%d tokens in, %d out, %.4f USD", u.InputTokens, u.OutputTokens, u.CostUSD)
}

func orDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// content returns the text of a message and its other parts, one line each.
func content(msg mailroom.Message) string {
	lines := []string{}
	if msg.Text != "" {
		lines = append(lines, msg.Text)
	}
	for _, p := range msg.Parts {
		switch p.Type {
		case "data":
			lines = append(lines, string(p.Data))
		case "file":
			lines = append(lines, p.URI)
		}
	}
	return strings.Join(lines, "\n")
}

// agentLabel returns an agent's name with its version, if known.
func agentLabel(agent string, version *string) string {
	if version == nil {
		return agent
	}
	return agent + " " + *version
}
