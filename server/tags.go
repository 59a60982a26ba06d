package server

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/auth"
)

// Groups of operations in the OpenAPI description.
const (
	tagMessages  = "messages"
	tagThreads   = "threads"
	tagRuns      = "runs"
	tagTickets   = "tickets"
	tagStreams   = "streams"
	tagAgents    = "agents"
	tagChannels  = "channels"
	tagAlerts    = "alerts"
	tagProjects  = "projects"
	tagTokens    = "tokens"
	tagWork      = "remote workers"
	tagServer    = "server"
	tagProtocols = "protocols"
)

// tags describes the groups in the order in which a reader needs them.
func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: tagMessages, Description: "Send messages to agents, and read, search, edit or retract them. Begin here."},
		{Name: tagStreams, Description: "Follow threads and runs as they change, and resume after a lost connection."},
		{Name: tagTickets, Description: "Decide what runs wait for: approvals, answers and events."},
		{Name: tagThreads, Description: "Addresses with a log and a queue of runs."},
		{Name: tagRuns, Description: "Turns of an agent on a thread: wait for, list, cancel and retry them."},
		{Name: tagWork, Description: "Run agents in a process of your own: claim runs, commit steps, settle."},
		{Name: tagAgents, Description: "Handlers of runs, and the processes that run them."},
		{Name: tagTokens, Description: "Who may do what, and how much."},
		{Name: tagChannels, Description: "Connections to chat platforms, and who may use them."},
		{Name: tagAlerts, Description: "Tell people what happens, and the links with which they decide."},
		{Name: tagProjects, Description: "Reservations of names and notifications for agents that work on one project."},
		{Name: tagServer, Description: "Health, counts and metrics."},
		{Name: tagProtocols, Description: "Endpoints of other protocols."},
	}
}

// tagOf returns the group of an operation.
func tagOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/"), "/")
	has := func(part string) bool { return slices.Contains(parts, part) }
	switch {
	case has("stream"), has("ws"):
		return tagStreams
	case has("messages"):
		return tagMessages
	case has("claims"), has("workers") && len(parts) > 1:
		return tagWork
	}
	switch parts[0] {
	case tagThreads, tagRuns, tagTickets, tagTokens, tagChannels, tagAgents, tagAlerts:
		return parts[0]
	case "failures":
		return tagRuns
	case "search":
		return tagMessages
	case "session", "links":
		return tagTokens
	case "workers":
		return tagAgents
	case "question", "push":
		return tagAlerts
	case "pairings":
		return tagChannels
	case "reservations", "notifications", "issues":
		return tagProjects
	case "stats", "healthz", "readyz", "metrics":
		return tagServer
	}
	return tagProtocols
}

// describeAccess says what a caller needs for an operation.
func describeAccess(need auth.Permission) string {
	switch need {
	case accessPublic:
		return "Needs no token."
	case accessAnyToken:
		return "Needs a token with any scope."
	case accessPerFrame:
		return "Each frame needs its own scope."
	case accessPerRequest:
		return "Each request made for the caller needs its own scope."
	}
	return "Needs the scope " + string(need) + "."
}
