package main

// acpMutants break what agents of the Agent Client Protocol are promised.
func acpMutants() []mutant {
	const (
		ticket = "^TestAPermissionOfAnACPAgentIsATicket$"
		killed = "^TestAnACPAgentThatIsKilledGoesOn$"
		ends   = "^TestARunEndsInTimeWhateverItsACPAgentDoes$"
	)
	return []mutant{
		{"an approval writes a standing rule", "agent/exec/program/acp_permission.go", "	once := d.asked[q.ID].of(acpAllowOnce)", "	once := append(d.asked[q.ID].of(\"allow_always\"), d.asked[q.ID].of(acpAllowOnce)...)[:1]", "agent/exec", ticket},
		{"one of several ways to allow a call is chosen by its place", "agent/exec/program/acp_permission.go", "		if len(once) > 1 {\n			for", "		if len(once) > 2 {\n			for", "agent/exec", ticket},
		{"a rule is offered as a permission for one call", "agent/exec/program/acp_permission.go", "	case len(once) == 0:", "	case false:", "agent/exec", "^TestAnACPAgentGetsNoStandingRule$"},
		{"a call without a permission for it alone is allowed by a rule", "agent/exec/program/acp_permission.go", "Send{asked.denial(m.ID)})", "Send{acpSelected(m.ID, r.Options[0].ID)})", "agent/exec", "^TestAnACPAgentGetsNoStandingRule$"},
		{"an unknown request gets no answer", "agent/exec/program/acp_dialogue.go", "	case m.Method != \"\" && asks:", "	case m.Method == \"x\" && asks:", "agent/exec/program", "^FuzzACP$"},
		{"a session keeps the mode that it begins with", "agent/exec/program/acp_dialogue.go", "	for _, m := range d.modes {", "	for _, m := range d.modes[:0] {", "agent/exec", "^TestAThreadIsOneSessionOfAnACPAgent$"},
		{"a turn that was cancelled counts as done", "agent/exec/program/acp_dialogue.go", "	case d.stopping, r.StopReason == \"cancelled\":", "	case r.StopReason == \"cancelled\":", "agent/exec/program", "^TestACancelledTurnOfACPIsAborted$"},
		{"the replay of a session is not read", "agent/exec/program/acp_dialogue.go", "		if d.agent.AgentCapabilities.LoadSession {", "		if false {", "agent/exec", killed},
		{"a message of a replay is no answer", "agent/exec/program/acp_calls.go",
			"		r.answer = r.answer || u.MessageID != \"\" || r.id == \"\"\n", "",
			"agent/exec", killed},
		{"a warning of a replay is an answer", "agent/exec/program/acp_calls.go",
			"		r.answer = r.answer || u.MessageID != \"\" || r.id == \"\"\n", "		r.answer = true\n",
			"agent/exec/program", "^TestAReplayOfACPIsJudged$"},
		{"a prompt without an id goes on with the one before", "agent/exec/program/acp_calls.go",
			" || u.MessageID == \"\" && strings.HasPrefix(block.Text, acpMark(\"\"))", "",
			"agent/exec/program", "^TestAReplayOfACPIsJudged$"},
		{"a prompt that died with its agent was refused", "agent/exec/program.go", "	refused := l.end != nil ||", "	refused := true ||", "agent/exec", killed},
		{"a line of any length is kept", "agent/exec/turn.go", "	if l.lines.Skipped > 0 && l.dialogue.MaxLine > 0 {", "	if false {", "agent/exec", ends},
		{"an agent is stopped by signals at once", "internal/proc/stop.go", "	if c.spec.Farewell != nil && c.spec.Farewell() {", "	if false {", "agent/exec", "^TestCancelEndsTheTurnOfAnACPAgent$"},
		{"a message can be a command of the agent", "agent/exec/program/acp_dialogue.go", "Text: acpMark(d.prompt.Mark) + \"]\\n\\n\" + text", "Text: text", "agent/exec", "^TestAThreadIsOneSessionOfAnACPAgent$"},
	}
}
