package main

import (
	"fmt"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/console"
	"mailroom/internal/display"
)

func printTickets(con *console.Console, page api.Page[api.Ticket], output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(page)
	}
	rows := [][]string{{"TICKET", "THREAD", "KIND", "STATE", "EXPIRES", "ASKS"}}
	for _, k := range page.Items {
		expires := "-"
		if k.ExpiresAt != nil {
			expires = con.When(k.ExpiresAt)
		}
		rows = append(rows, []string{k.ID, k.Thread, string(k.Kind), ticketState(k), expires, console.Shorten(ticketSummary(k), 60)})
	}
	return con.PrintList(rows, page.Next, "no tickets match")
}

// printTicketPrompt prints a ticket's question to Stderr. Stdout is for the decision.
func printTicketPrompt(con *console.Console, k api.Ticket) {
	con.Infof("%s %s of run %s in thread %s: %s", k.Kind, display.Line(k.Name), k.Run, display.Line(k.Thread), display.Line(deref(k.Prompt)))
	if deref(k.Action) != "" || len(k.Arguments) > 0 {
		con.Infof("  %s", display.Line(strings.TrimSpace(deref(k.Action)+" "+string(k.Arguments))))
	}
	if k.ExpiresAt != nil && k.State == mailroom.TicketOpen {
		con.Infof("  expires %s", con.When(k.ExpiresAt))
	}
}

func printTicket(con *console.Console, k api.Ticket, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(k)
	}
	return con.PrintTable([][]string{{k.ID, ticketState(k)}})
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

func printAgents(con *console.Console, agents []api.Agent, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(api.Page[api.Agent]{Items: agents})
	}
	rows := [][]string{{"AGENT", "KIND", "VERSION", "PROGRAM", "AVAILABLE", "WORKERS", "RUNNING", "ISOLATION"}}
	for _, a := range agents {
		available := "yes"
		if !a.Available {
			available = "no: " + deref(a.Reason)
		}
		rows = append(rows, []string{a.Name, orDash(a.Kind), orDash(a.Version), orDash(a.Program), available, fmt.Sprint(a.Workers), fmt.Sprint(a.Running), orDash(a.Isolation)})
	}
	return con.PrintList(rows, nil, "no agents")
}

func printWorkers(con *console.Console, workers []api.Worker, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(api.Page[api.Worker]{Items: workers})
	}
	rows := [][]string{{"WORKER", "HOST", "PID", "RUNNING", "LEASE UNTIL", "AGENTS"}}
	for _, w := range workers {
		rows = append(rows, []string{
			w.ID, w.Host, fmt.Sprint(w.PID), fmt.Sprint(w.Running), con.When(&w.LeaseUntil), strings.Join(w.Agents, " "),
		})
	}
	return con.PrintList(rows, nil, "no workers")
}

func printRetried(con *console.Console, r api.Retried, dry bool, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(r)
	}
	rows := [][]string{{"matched", fmt.Sprint(r.Matched)}, {"retried", fmt.Sprint(r.Retried)}}
	if dry {
		con.Infof("dry run: without --dry-run these runs are queued again")
	}
	return con.PrintTable(rows)
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
