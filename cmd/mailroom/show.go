package main

import (
	"fmt"
	"strings"

	"mailroom"
	"mailroom/api"
)

func (m *Main) printTickets(page api.Page[api.Ticket], output format) error {
	if output == asJSON {
		return m.printJSON(page)
	}
	rows := [][]string{{"TICKET", "THREAD", "KIND", "STATE", "EXPIRES", "ASKS"}}
	for _, k := range page.Items {
		expires := "-"
		if k.ExpiresAt != nil {
			expires = m.when(k.ExpiresAt)
		}
		rows = append(rows, []string{k.ID, k.Thread, string(k.Kind), ticketState(k), expires, cut(ticketSummary(k), 60)})
	}
	return m.printList(rows, page.Next, "no tickets match")
}

// printTicketPrompt prints a ticket's question to Stderr. Stdout is for the decision.
func (m *Main) printTicketPrompt(k api.Ticket) {
	m.infof("%s %s of run %s in thread %s: %s", k.Kind, oneLine(k.Name), k.Run, oneLine(k.Thread), oneLine(deref(k.Prompt)))
	if deref(k.Action) != "" || len(k.Arguments) > 0 {
		m.infof("  %s", oneLine(strings.TrimSpace(deref(k.Action)+" "+string(k.Arguments))))
	}
	if k.ExpiresAt != nil && k.State == mailroom.TicketOpen {
		m.infof("  expires %s", m.when(k.ExpiresAt))
	}
}

func (m *Main) printTicket(k api.Ticket, output format) error {
	if output == asJSON {
		return m.printJSON(k)
	}
	return m.printTable([][]string{{k.ID, ticketState(k)}})
}

// ticketState returns the state of a ticket, or its decision.
func ticketState(k api.Ticket) string {
	if k.Decision == nil {
		return string(k.State)
	}
	return verdictText(*k.Decision)
}

// ticketSummary summarizes a ticket for a table cell.
func ticketSummary(k api.Ticket) string {
	line := deref(k.Prompt)
	if line == "" {
		line = k.Name
	}
	if a := deref(k.Action); a != "" {
		line += " (" + a + ")"
	}
	return line
}

func (m *Main) printAgents(agents []api.Agent, output format) error {
	if output == asJSON {
		return m.printJSON(api.Page[api.Agent]{Items: agents})
	}
	rows := [][]string{{"AGENT", "KIND", "VERSION", "PROGRAM", "AVAILABLE", "WORKERS", "RUNNING", "ISOLATION"}}
	for _, a := range agents {
		available := "yes"
		if !a.Available {
			available = "no: " + deref(a.Reason)
		}
		rows = append(rows, []string{a.Name, orDash(a.Kind), orDash(a.Version), orDash(a.Program), available, fmt.Sprint(a.Workers), fmt.Sprint(a.Running), orDash(a.Isolation)})
	}
	return m.printList(rows, nil, "no agents")
}

func (m *Main) printWorkers(workers []api.Worker, output format) error {
	if output == asJSON {
		return m.printJSON(api.Page[api.Worker]{Items: workers})
	}
	rows := [][]string{{"WORKER", "HOST", "PID", "RUNNING", "LEASE UNTIL", "AGENTS"}}
	for _, w := range workers {
		rows = append(rows, []string{
			w.ID, w.Host, fmt.Sprint(w.PID), fmt.Sprint(w.Running), m.when(&w.LeaseUntil), strings.Join(w.Agents, " "),
		})
	}
	return m.printList(rows, nil, "no workers")
}

func (m *Main) printRetried(r api.Retried, dry bool, output format) error {
	if output == asJSON {
		return m.printJSON(r)
	}
	rows := [][]string{{"matched", fmt.Sprint(r.Matched)}, {"retried", fmt.Sprint(r.Retried)}}
	if dry {
		m.infof("dry run: without --dry-run these runs are queued again")
	}
	return m.printTable(rows)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// pluralize formats a count with its noun.
func pluralize(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
