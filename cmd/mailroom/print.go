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
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/cmd/mailroom/internal/datadir"
	"mailroom/internal/display"
)

// infof prints a line of talk, rendered for a person: see [display.Text]. That it cannot be
// printed changes no outcome, so its error is dropped here and nowhere else.
func (m *Main) infof(format string, args ...any) {
	_, _ = io.WriteString(m.Stderr, display.Text(fmt.Sprintf(format, args...))+"\n")
}

func (m *Main) printError(message, hint string) {
	if hint != "" && !strings.HasPrefix(hint, "\n") {
		hint = ": " + hint
	}
	m.infof("mailroom: %s%s", message, hint)
}

// fieldText is what is wrong with a field of a request. It names the field and not the place of it in the JSON of the request,
// which a user of a command has not written.
func fieldText(f mailroom.Field) string {
	name := f.Location[strings.LastIndexByte(f.Location, '.')+1:]
	if name, _, _ = strings.Cut(name, "["); name == "" || name == "body" || strings.Contains(f.Message, name) {
		return f.Message
	}
	return name + ": " + f.Message
}

func (m *Main) printRetryHint(key string) {
	m.infof("the message may have been accepted: sending it again with --key %s sends nothing twice", key)
}

func (m *Main) printDetached(again string) {
	m.infof("detached; nothing was cancelled. Show it again with:\n  %s", again)
}

// printListening says where the server is, and what to type next.
func (m *Main) printListening(url string, dir datadir.Dir) {
	m.infof("listening on %s, keeping everything in %s\nnow type, in another terminal:\n  %s", url, dir, m.commandLine("send", "hello"))
	m.infof("or open %s/chat in a browser, and paste the token from %s", url, dir.TokenFile())
}

// printBridging says where the server of a bridge is, and how to look at it.
func (m *Main) printBridging(url string, dir datadir.Dir) {
	m.infof("listening on %s, keeping everything in %s\nhow it is, in another terminal:\n  %s", url, dir, m.commandLine("channels"))
}

func (m *Main) printExposed() {
	m.infof("other machines may reach this address without encryption: let nobody but the proxy do so")
}

// printConnectionState says that the server does not answer, or does again. What is being
// written goes on below.
func (m *Main) printConnectionState(err error) {
	if m.midLine && terminal(m.Stdout) && terminal(m.Stderr) {
		m.infof("")
		m.midLine = false
	}
	if err != nil {
		m.infof("the server does not answer; trying again until it does (Ctrl-C ends this, and cancels nothing)")
		return
	}
	m.infof("the server is back")
}

func (m *Main) printStopping() {
	m.infof("shutting down; a second signal ends it at once")
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
	return m.printList(rows, page.Next, `no threads yet: mailroom send "hello" makes one`)
}

// threadView is what -o json of threads show prints: the thread's fields, and
// the last messages of its transcript in order of reading.
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
			note = ", breaks off"
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

// printList prints rows below their head, and on Stderr how to see the rest.
func (m *Main) printList(rows [][]string, next *string, none string) error {
	if len(rows) == 1 {
		m.infof("%s", none)
		return nil
	}
	if err := m.printTable(rows); err != nil {
		return err
	}
	if next != nil {
		m.infof("there are more: --cursor %s", quote(*next))
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

// when is a time for people in a terminal, and for programs elsewhere.
func (m *Main) when(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return "-"
	case terminal(m.Stdout):
		return humanize.Time(*t)
	}
	return t.UTC().Format(time.RFC3339)
}

// display is text as it may go to Stdout: rendered for a person in a terminal, unchanged for a
// program. See [display.Text].
func (m *Main) display(text string) string {
	if !terminal(m.Stdout) {
		return text
	}
	return display.Text(text)
}

// oneLine makes text fit for a line of talk or a cell of a table.
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

// detail is the one thing to know of a run beside its status.
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

// content is the text of a message and, a line each, its other parts.
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

// agentLabel is an agent with its version, if that is known.
func agentLabel(agent string, version *string) string {
	if version == nil {
		return agent
	}
	return agent + " " + *version
}
