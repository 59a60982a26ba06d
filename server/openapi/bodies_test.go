package openapi

// queries are the query parameters of the examples, by operation.
func queries() map[string]map[string]string {
	return map[string]map[string]string{
		"list-runs": {"q": "status:completed", "limit": "20"}, "count-runs": {"q": "status:completed"},
		"list-threads": {"limit": "20"}, "list-tickets": {"q": "state:open"}, "list-entries": {"after": "0", "limit": "3"},
		"list-messages": {"limit": "20"}, "search": {"q": "release notes"}, "series": {"step": "day"},
		"sums":     {"step": "day"},
		"wait-run": {"timeout": "30s"}, "stream-run": {"after": "0"}, "stream-thread": {"after": "900"},
		"list-notifications": {"agent": "reviewer"},
	}
}

// bodies are the request bodies of the examples, by operation. {name} stands for the id of an object of the test. An
// operation that is not here is called with the examples of its fields.
func bodies() map[string]string {
	return map[string]string{
		"submit":           `{"thread":"release-notes","text":"Draft the release notes of 1.4.","agent":"echo"}`,
		"submit-to-thread": `{"text":"Shorter, please.","mode":"steer"}`,
		"edit-message":     `{"text":"Draft the release notes of 1.5."}`,
		"decide":           `{"decision":"approve","digest":"{digest}","reason":"The checks are green."}`,
		"decide-question":  `{"link":"{link}","decision":"deny","reason":"Not on a Friday."}`,
		"patch-thread":     `{"agent":"spare","metadata":{"ticket":"DOC-17"}}`,
		"cancel-run":       `{"children":true}`,
		"cancel-runs":      `{"q":"status:queued","dry_run":true}`,
		"retry-runs":       `{"q":"status:failed error:\"no route\""}`,
		"put-schedule": `{"name":"report","spec":{"cron":"0 7 * * 1-5","zone":"Europe/Berlin","thread":"inbox",` +
			`"agent":"echo","text":"Summarize what is new."}}`,
		"pause-schedule": `{"note":"holidays"}`,
		"raise-budget":   `{"kind":"agent","name":"coder","period":"day","by":"5usd"}`,
		"pause-agent":    `{"reason":"The provider has an outage."}`,
		"claim":          `{"worker":"{worker}","agents":["coder"],"max":1,"round":1,"wait":"20s"}`,
		"renew-worker":   `{"round":2,"held":["{claim}"]}`,
		"leave-worker":   `{"entered":["{claim}"]}`,
		"append": `{"number":1,"step":{"name":"outline","checkpoint":{"chapter":1},"progress":0.5,` +
			`"usage":{"input_tokens":900,"output_tokens":120,"cost_usd":0.004}},` +
			`"effects":[{"kind":"effect.intended","body":{"name":"publish","input":"page notes"}}]}`,
		"write":                `{"offset":0,"text":"Here is a draft"}`,
		"settle":               `{"number":1,"outcome":"complete","text":"Here is a draft of the release notes."}`,
		"hand-over":            `{"after":0}`,
		"put-rule":             `{"name":"night","when":["ticket","failed"],"to":["phone"],"quiet":"22:00-07:00"}`,
		"reserve":              `{"names":["docs/*.md"],"holder":"writer","reason":"release notes","ttl":"30m"}`,
		"renew-reservation":    `{"ttl":"1h"}`,
		"release-names":        `{"holder":"writer","names":["docs/*.md"]}`,
		"notify":               `{"from":"writer","to":["reviewer"],"event":"draft.ready","data":{"file":"notes.md"}}`,
		"take-notifications":   `{"agent":"reviewer"}`,
		"create-token":         `{"name":"laptop","scopes":["read","submit","decide"]}`,
		"create-limited-token": `{"scopes":["read"],"threads":["release-notes"],"expires_at":"{tomorrow}"}`,
		"create-link":          `{"scopes":["read","decide"]}`,
		"set-quotas":           `{"quotas":{"threads":100,"streams":8}}`,
		"end-token":            `{"cancel":true}`,
		"mcp":                  `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"agentmail-reserve":    `{"file_path":"notes.md","agent_name":"writer","ttl":1800}`,
		"agentmail-notify":     `{"from_agent":"writer","event_type":"draft.ready","payload":{"file":"notes.md"}}`,
	}
}
