package program

import (
	"encoding/json"
	"fmt"
	"strconv"

	"mailroom"
	"mailroom/internal/lazyregexp"
)

// codex is the profile of OpenAI's Codex, run as `codex exec --json`. It reads its prompt to the
// end of stdin, chooses the ids of its sessions and cannot ask for permission.
func codex() *Profile {
	return &Profile{
		Name: "codex", Program: "codex", Version: []string{"--version"},
		EnvAllow: append(network(),
			"CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE",
			"CODEX_SQLITE_HOME", "CODEX_OSS_BASE_URL", "CODEX_OSS_PORT",
			"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT",
			"AWS_PROFILE", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK",
		),
		Modes: []Mode{ModeRead, ModeEdit, ModeAll},
		Args: func(t Turn) []string {
			// These flags stand before exec, so that they also apply to a resumed turn.
			args := []string{"-s", map[Mode]string{ModeRead: "read-only", ModeEdit: "workspace-write",
				ModeAll: "danger-full-access"}[t.Mode]}
			if t.Model != "" {
				args = append(args, "-m", t.Model)
			}
			args = append(append(args, t.Args...), "exec")
			if t.Resume {
				args = append(args, "resume")
			}
			args = append(args, "--json", "--skip-git-repo-check")
			if t.Resume {
				args = append(args, t.Session)
			}
			return append(args, "-")
		},
		Prompt:      func(text string) string { return text },
		Decode:      decodeCodex,
		SessionGone: []string{"no rollout found"},
		SessionBusy: []string{"active writer"},
		StartRefused: []string{
			"error: unexpected argument", "error: invalid value", "error parsing -c overrides", "error loading config",
			"error finding codex home", "error: model provider",
		},
	}
}

// codexLine has those fields of a line of codex that this package uses.
type codexLine struct {
	Type    string          `json:"type"`
	Thread  string          `json:"thread_id"`
	Item    json.RawMessage `json:"item"`
	Message string          `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage *struct {
		Input     int64 `json:"input_tokens"`
		Cached    int64 `json:"cached_input_tokens"`
		Output    int64 `json:"output_tokens"`
		Reasoning int64 `json:"reasoning_output_tokens"`
	} `json:"usage"`
}

func decodeCodex(line []byte) ([]Event, error) {
	var l codexLine
	if err := decodeLine(line, &l); err != nil {
		return nil, err
	}
	switch l.Type {
	case "thread.started":
		return []Event{Session{ID: l.Thread}}, nil
	case "item.started", "item.completed":
		return codexItem(l.Item, l.Type == "item.completed"), nil
	case "error":
		return []Event{Warning{Text: l.Message}}, nil
	case "turn.failed":
		return []Event{End{Status: codexStatus(l.Error.Message), Message: l.Error.Message}}, nil
	case "turn.completed":
		var events []Event
		if l.Usage != nil {
			u := mailroom.Usage{InputTokens: l.Usage.Input, OutputTokens: l.Usage.Output,
				CacheReadTokens: l.Usage.Cached, ReasoningTokens: l.Usage.Reasoning}
			events = append(events, Usage{Usage: u, TotalTokens: true})
		}
		return append(events, End{OK: true}), nil
	}
	return nil, nil
}

// codexItem decodes an item of a turn. Unknown kinds of items count as tools, so that new ones are
// shown.
func codexItem(raw json.RawMessage, completed bool) []Event {
	var it struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Message  string          `json:"message"`
		Status   string          `json:"status"`
		Output   string          `json:"aggregated_output"`
		ExitCode *int            `json:"exit_code"`
		Result   json.RawMessage `json:"result"`
		Error    json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &it) != nil {
		return nil // unknown format
	}
	switch it.Type {
	case "agent_message":
		if completed {
			return []Event{Passage{Message: it.ID, Text: it.Text}}
		}
		return nil
	case "error":
		if completed {
			return []Event{Warning{Text: it.Message}}
		}
		return nil
	case "reasoning":
		if completed && it.Text != "" {
			return []Event{Thinking{Text: it.Text + "\n\n"}}
		}
		return nil
	case "todo_list", "":
		return nil
	}
	arguments := codexArguments(raw)
	if !completed {
		return []Event{ToolStarted{Call: it.ID, Name: it.Type, Arguments: arguments}}
	}
	done := ToolFinished{Call: it.ID, Name: it.Type, Arguments: arguments, OK: it.Status != "failed" &&
		it.Status != "declined"}
	switch {
	case it.Output != "":
		done.Summary = it.Output
	case !null(it.Error):
		done.Summary = string(it.Error)
	case !null(it.Result):
		done.Summary = string(it.Result)
	}
	if it.ExitCode != nil && *it.ExitCode != 0 {
		done.Summary = fmt.Sprintf("exit status %d\n%s", *it.ExitCode, done.Summary)
	}
	return []Event{done}
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// codexArguments returns the fields of an item except its results.
func codexArguments(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, name := range []string{"id", "type", "status", "aggregated_output", "exit_code", "result", "error"} {
		delete(fields, name)
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return b
}

var httpStatus = lazyregexp.New(`\bstatus:? (\d{3})\b`)

// codexStatus returns the HTTP status that a message of codex names, or 0 if it names none. The line has no other
// sign of the status.
func codexStatus(message string) int {
	m := httpStatus().FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	status, _ := strconv.Atoi(m[1]) // three digits
	return status
}
