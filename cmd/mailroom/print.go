package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/config"
	"mailroom/internal/datadir"
	"mailroom/internal/display"
)

// infof prints a line for people to Stderr, escaped by [display.Text]. A write error does not
// change the outcome of a command, so it is dropped here and only here.
func (m *Main) infof(format string, args ...any) {
	_, _ = io.WriteString(m.Stderr, display.Text(fmt.Sprintf(format, args...))+"\n")
}

func (m *Main) printError(message, hint string) {
	if hint != "" && !strings.HasPrefix(hint, "\n") {
		hint = ": " + hint
	}
	m.infof("mailroom: %s%s", message, hint)
}

// fieldText formats a field error for a user of a command: with the field's name instead of its path in the JSON of the
// request.
func fieldText(f mailroom.Field) string {
	name := f.Location[strings.LastIndexByte(f.Location, '.')+1:]
	if name, _, _ = strings.Cut(name, "["); name == "" || name == "body" || strings.Contains(f.Message, name) {
		return f.Message
	}
	return name + ": " + f.Message
}

func (m *Main) printRetryHint(key string) {
	m.infof("the message may have been accepted; retry with --key %s to avoid a duplicate", key)
}

func (m *Main) printDetached(again string) {
	m.infof("detached; nothing was cancelled. To show it again:\n  %s", again)
}

// printListening prints the server's address and the next commands.
func (m *Main) printListening(url string, dir datadir.Dir) {
	m.infof("listening on %s, data folder %s\nnext, in another terminal:\n  %s", url, dir, m.commandLine("send", "hello"))
	m.infof("or open %s/chat in a browser and paste the token from %s", url, dir.TokenFile())
}

// printBridging prints the bridge's address and how to show its state.
func (m *Main) printBridging(url string, dir datadir.Dir) {
	m.infof("listening on %s, data folder %s\nto show its state, in another terminal:\n  %s", url, dir, m.commandLine("channels"))
}

func (m *Main) printExposed() {
	m.infof("warning: this address is reachable from other machines without encryption: restrict access to the proxy")
}

// printConnectionState reports that the server became unreachable (err is set) or reachable again.
// A partially printed line continues on the next line.
func (m *Main) printConnectionState(err error) {
	if m.midLine && terminal(m.Stdout) && terminal(m.Stderr) {
		m.infof("")
		m.midLine = false
	}
	if err != nil {
		m.infof("server unreachable; retrying (Ctrl-C detaches and cancels nothing)")
		return
	}
	m.infof("server reachable again")
}

func (m *Main) printStopping() {
	m.infof("shutting down; a second signal exits at once")
}

func (m *Main) printSubmitted(s mailroom.Submitted, output format) error {
	if output == asJSON {
		return m.printJSON(s)
	}
	rows := [][]string{{"thread", s.Thread}, {"run", s.Run}, {"message", s.Message}, {"status", string(s.Status)}}
	if s.Disposition != mailroom.DispositionQueued {
		rows = append(rows, []string{"disposition", string(s.Disposition)})
	}
	return m.printTable(rows)
}

func (m *Main) printThreads(page api.Page[api.Thread], output format) error {
	if output == asJSON {
		return m.printJSON(page)
	}
	rows := [][]string{{"THREAD", "AGENT", "STATUS", "QUEUED", "ENTRIES", "UPDATED"}}
	for _, t := range page.Items {
		rows = append(rows, []string{
			t.ID, t.Agent, t.Status, fmt.Sprint(t.Queued), fmt.Sprint(t.LastSeq), m.when(&t.UpdatedAt),
		})
	}
	return m.printList(rows, page.Next, `no threads yet; create one with: mailroom send "hello"`)
}

// threadView is the JSON output of threads show: the thread's fields, and the last
// messages of its transcript in reading order.
type threadView struct {
	api.Thread
	Messages []mailroom.Message `json:"messages"`
}

func (m *Main) printThread(t threadView, output format) error {
	if output == asJSON {
		return m.printJSON(t)
	}
	rows := [][]string{
		{"thread", t.ID}, {"agent", t.Agent}, {"status", t.Status}, {"queued", fmt.Sprint(t.Queued)},
		{"active run", orDash(t.ActiveRun)}, {"latest run", orDash(t.LatestRun)}, {"parent", orDash(t.Parent)},
		{"entries", fmt.Sprintf("%d to %d", t.OldestSeq, t.LastSeq)},
		{"created", m.when(&t.CreatedAt)}, {"updated", m.when(&t.UpdatedAt)},
	}
	if err := m.printTable(rows); err != nil {
		return err
	}
	for _, msg := range t.Messages {
		note := ""
		if msg.Partial {
			note = ", incomplete"
		} else if msg.State != mailroom.MessageDone {
			note = ", " + msg.State
		}
		_, err := fmt.Fprintf(m.Stdout, "\n%s (%d, %s%s)\n%s\n", msg.Role, msg.Seq, m.when(&msg.CreatedAt), note, m.display(content(msg)))
		if err != nil {
			return wrapPrintError(err)
		}
	}
	return nil
}

func (m *Main) printRuns(page api.Page[api.Run], output format) error {
	if output == asJSON {
		return m.printJSON(page)
	}
	rows := [][]string{{"RUN", "THREAD", "AGENT", "STATUS", "ATTEMPT", "CREATED", "DETAIL"}}
	for _, r := range page.Items {
		rows = append(rows, []string{
			r.ID, r.Thread, r.Agent, string(r.Status), fmt.Sprint(r.Attempt), m.when(&r.CreatedAt), cut(detail(r), 60),
		})
	}
	return m.printList(rows, page.Next, "no runs yet")
}

func (m *Main) printRun(r api.Run, output format) error {
	if output == asJSON {
		return m.printJSON(r)
	}
	return m.printTable([][]string{
		{"run", r.ID}, {"thread", r.Thread}, {"agent", agentLabel(r.Agent, r.AgentVersion)}, {"status", status(r)},
		{"attempt", fmt.Sprint(r.Attempt)}, {"failures", fmt.Sprintf("%d of %d", r.Failures, r.MaxAttempts)}, {"crashes", fmt.Sprint(r.Crashes)},
		{"worker", orDash(r.Worker)}, {"key", orDash(r.Key)}, {"parent", orDash(r.Parent)}, {"via", r.Origin.Via},
		{"steps", fmt.Sprint(r.Steps)}, {"progress", percent(r.Progress)}, {"waits for", waitsFor(r)}, {"usage", usage(r.Usage)},
		{"created", m.when(&r.CreatedAt)}, {"started", m.when(r.StartedAt)}, {"finished", m.when(r.FinishedAt)},
		{"detail", detail(r)},
	})
}

// printChanged prints a run that was cancelled or queued again.
func (m *Main) printChanged(r api.Run, output format) error {
	if output == asJSON {
		return m.printJSON(r)
	}
	return m.printTable([][]string{{r.ID, status(r)}})
}

func (m *Main) printInterrupted(i api.Interrupted, output format) error {
	if output == asJSON {
		return m.printJSON(i)
	}
	var rows [][]string
	for _, run := range i.Superseded {
		rows = append(rows, []string{run, "superseded"})
	}
	if i.Stopping != nil {
		rows = append(rows, []string{*i.Stopping, "stopping"})
	}
	if len(rows) == 0 {
		m.infof("nothing was queued or running")
	}
	return m.printTable(rows)
}

func (m *Main) printConfig(c *config.Config, reveal bool, output format) error {
	text := []byte(c.TOML(reveal))
	if output == asJSON {
		var err error
		if text, err = c.JSON(reveal); err != nil {
			return err
		}
	}
	_, err := m.Stdout.Write(text)
	return wrapPrintError(err)
}

func (m *Main) printVersion(v versionInfo, output format) error {
	if output == asJSON {
		return m.printJSON(v)
	}
	line := "mailroom " + v.Version
	if v.Revision != "" {
		line += " (" + v.Revision + ")"
	}
	_, err := fmt.Fprintf(m.Stdout, "%s %s\n", line, v.Go)
	return wrapPrintError(err)
}

// printJSON prints v as one line.
func (m *Main) printJSON(v any) error {
	enc := json.NewEncoder(m.Stdout)
	enc.SetEscapeHTML(false)
	return wrapPrintError(enc.Encode(v))
}

// printList prints rows, the first of which is the header, and to Stderr how to get the next page.
func (m *Main) printList(rows [][]string, next *string, none string) error {
	if len(rows) == 1 {
		m.infof("%s", none)
		return nil
	}
	if err := m.printTable(rows); err != nil {
		return err
	}
	if next != nil {
		m.infof("more results: --cursor %s", quote(*next))
	}
	return nil
}

func (m *Main) printTable(rows [][]string) error {
	w := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		if _, err := io.WriteString(w, strings.Join(cells, "\t")+"\n"); err != nil {
			return wrapPrintError(err)
		}
	}
	return wrapPrintError(w.Flush())
}

func wrapPrintError(err error) error {
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// when formats a time: relative on a terminal, RFC 3339 elsewhere.
func (m *Main) when(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return "-"
	case terminal(m.Stdout):
		return humanize.Time(*t)
	}
	return t.UTC().Format(time.RFC3339)
}

// display returns text for Stdout: escaped by [display.Text] on a terminal, unchanged elsewhere.
func (m *Main) display(text string) string {
	if !terminal(m.Stdout) {
		return text
	}
	return display.Text(text)
}

// oneLine formats text as a single line, for messages and table cells.
func oneLine(text string) string { return display.Line(text) }

// cut shortens text to at most n characters.
func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
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
