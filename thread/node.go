package thread

import (
	"maps"
	"strings"

	"mailroom"
	"mailroom/store"
)

// A sticky agent keeps the conversation of a thread in a session on one machine. The step that writes the agent's
// state also writes the id of its server into the thread's row, in one commit, so the server of each session is
// known. Runs of a thread without a session start on any server.
//
// The server is a part of Due.Agent, by which claims look for due runs: a server asks for the agent, and for the
// agent with its own id, and each is an index seek. With the server in a column of its own, a claim would have to
// skip the due threads of all other servers. Agents that are not sticky cost nothing.

// dueSeparator stands between agent and node in [mailroom.Due].Agent.
const dueSeparator = " @ "

// DueAgent returns the Due.Agent of runs of agent that only the server node starts. With node "", any server starts
// them. Different arguments give different results, because the id of a node contains no dueSeparator.
func DueAgent(agent, node string) string {
	if node == "" && !strings.Contains(agent, dueSeparator) && !strings.HasPrefix(agent, store.GatePrefix) {
		return agent
	}
	return agent + dueSeparator + node
}

// ParseDueAgent returns the arguments of DueAgent.
//
// Of a gate, it returns the agent whose runs wait there.
func ParseDueAgent(due string) (agent, node string) {
	if agent, ok := GateAgent(due); ok {
		return agent, ""
	}
	i := strings.LastIndex(due, dueSeparator)
	if i < 0 {
		return due, ""
	}
	return due[:i], due[i+len(dueSeparator):]
}

// withNode adds the server that keeps the session of the due run's agent.
func withNode(row *mailroom.Thread, d mailroom.Due) mailroom.Due {
	if d.Agent != "" {
		d.Agent = dueAgent(row, d.Agent)
	}
	return d
}

// withPlace adds where the due run waits: at the gate of its key, or for workers of any server or of one.
func withPlace(row *mailroom.Thread, d mailroom.Due) mailroom.Due {
	if row.Gate != "" && !row.Kept {
		d.Agent = row.Gate
		return d
	}
	return withNode(row, d)
}

func dueAgent(row *mailroom.Thread, agent string) string { return DueAgent(agent, row.Nodes[agent]) }

// keepSession records which server keeps the session of an agent, "" for none.
func keepSession(row *mailroom.Thread, agent, node string) {
	if row.Nodes[agent] == node {
		return
	}
	nodes := maps.Clone(row.Nodes) // the stored map may be shared
	if nodes == nil {
		nodes = map[string]string{}
	}
	if nodes[agent] = node; node == "" {
		delete(nodes, agent)
	}
	row.Nodes = nodes
}
