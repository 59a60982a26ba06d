package chat_test

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/store"
)

// rows is a reader with the rows of one run.
type rows struct {
	store.Reader
	pauses  []store.Pause
	tickets []*mailroom.Ticket
	entries []mailroom.Entry
}

func (r rows) Agents() (store.AgentRows, error)                      { return store.AgentRows{Pauses: r.pauses}, nil }
func (r rows) Tickets(store.TicketQuery) ([]*mailroom.Ticket, error) { return r.tickets, nil }
func (r rows) Entries(store.EntryQuery) ([]mailroom.Entry, error)    { return r.entries, nil }

func TestDescribeRunNamesWhatARunWaitsFor(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	at := now.Add(-time.Hour)
	ticket := func(kind mailroom.TicketKind) rows { return rows{tickets: []*mailroom.Ticket{{Kind: kind}}} }
	started := func(s mailroom.Status) mailroom.Run { return mailroom.Run{Status: s, StartedAt: at, Agent: "codex"} }
	retried, scheduled := started(mailroom.StatusQueued),
		mailroom.Run{Status: mailroom.StatusQueued, Scheduled: true, NotBefore: now}
	retried.AvailableAt = now.Add(time.Hour)
	for name, c := range map[string]struct {
		run  mailroom.Run
		rows rows
		want string
	}{
		"running":     {started(mailroom.StatusRunning), rows{}, "is running, since 14:00:00 UTC."},
		"an approval": {started(mailroom.StatusWaiting), ticket(mailroom.TicketApproval), "waits for an answer, "},
		"another agent": {started(mailroom.StatusWaiting), ticket(mailroom.TicketChildren),
			"waits for another agent, "},
		"a timer":             {started(mailroom.StatusWaiting), ticket(mailroom.TicketTimer), "waits for a time "},
		"an event":            {started(mailroom.StatusWaiting), ticket(mailroom.TicketEvent), "waits for an event, "},
		"the end of a limit":  {retried, rows{}, "will try again at 16:00:00 UTC, "},
		"a scheduled run":     {scheduled, rows{}, "begins at 15:00:00 UTC."},
		"a slot of the agent": {mailroom.Run{Status: mailroom.StatusQueued}, rows{}, "works in other conversations "},
		"a pause of the server": {mailroom.Run{Status: mailroom.StatusQueued, Agent: "codex"},
			rows{pauses: []store.Pause{{Agent: "codex", Reason: "key sk-1", Probe: now}}},
			"cannot work at present. The next try is at 15:00:00 UTC, "},
		"a pause of another agent": {started(mailroom.StatusQueued), rows{pauses: []store.Pause{{Agent: "claude"}}},
			"will resume, "},
		"a pause of the operator": {started(mailroom.StatusQueued),
			rows{pauses: []store.Pause{{Agent: "codex", Reason: "key sk-1"}}}, "is paused by the server's operator. "},
	} {
		got, err := chat.DescribeRun(c.rows, &c.run, now)
		if err != nil || !strings.HasPrefix(got, c.want) || strings.Contains(got, "sk-1") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}
