package main

// bellMutants let connect change what is not its own, and bells reach what they must not.
func bellMutants() []mutant {
	const connect = "^TestSessions$/^connect$"
	return []mutant{
		{"a session without batches takes them", "protocol/mcp/stdio.go", "message[0] == '[' && !s.allowsBatches() {", "false {", "protocol/mcp",
			"^TestBatchesAreOnlyOfTheRevisionsThatHaveThem$"},
		{"a hook of another program counts as one of connect", "app/cli/harness_hook.go",
			"len(e.Args) == 6 && e.Args[0] == \"--context\" &&", "true ||",
			"cmd/mailroom", connect},
		{"an MCP server of another program counts as one of connect", "app/cli/harness_program.go",
			"	if ok && !found.isOwn() {", "	if false {", "cmd/mailroom", connect},
		{"a claude that would wait for the hook gets it", "app/cli/harness_hook.go",
			"p.same = !claudeRewakes(ctx)", "p.same = false", "cmd/mailroom", connect},
		{"a removal of items cuts one of others", "internal/jsontext/edit.go",
			"func(s *span) bool { return drop(text[s.start:s.end]) })", "func(s *span) bool { return true })",
			"internal/jsontext", "^TestOnlyItemsThatAreDroppedAreRemoved$"},
		{"a hook rings in a run of Mailroom", "app/cli/inbox_rewake.go",
			"con.Env(\"MAILROOM_THREAD\") != \"\" || ", "", "cmd/mailroom", "^TestSessions$/^inbox$"},
		{"a hook keeps a session without a person from its end", "app/cli/inbox_rewake.go",
			" || endsWithItsTurn(con) {", " {", "cmd/mailroom", "^TestSessions$/^inbox$"},
		{"a file of another program counts as the plug-in of connect", "app/cli/harness_opencode.go",
			"!bytes.HasPrefix(text, []byte(mark))", "false", "cmd/mailroom", connect},
		{"a plug-in rings in a run of Mailroom", "app/cli/inbox_lines.go",
			"	if con.Env(\"MAILROOM_THREAD\") != \"\" {", "	if false {",
			"cmd/mailroom", "^TestAPluginInARunOfMailroomRingsNothing$"},
		{"a hook of gemini rejects what its user says", "app/cli/inbox_note.go",
			"		con.Infof(\"the inbox is not known: %v\", err)\n", "		return err\n", "cmd/mailroom", "^TestSessions$/^inbox$"},
		{"a session is rung while it waits for its user", "protocol/bell/state.go", "	if s.Held != \"\" {", "	if false {",
			"protocol/bell", "^TestASessionThatIsHeldIsNotRung$"},
		{"a socket of another user is rung", "protocol/bell/claude.go",
			"folder.Mode().Perm()&0o022 != 0", "false", "protocol/bell", "^TestASocketThatIsNotTheSessionsIsNotRung$"},
	}
}
