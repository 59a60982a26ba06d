package program

import (
	"encoding/json"
	"fmt"
	"strings"

	"mailroom"
)

// claude is Anthropic's, with a stream of JSON lines in both directions. It takes
// the id of a session from us, asks before it uses a tool, and reads further
// messages while it works.
func claude() *Profile {
	return &Profile{
		Name: "claude", Program: "claude", Version: []string{"--version"},
		EnvAllow: append(network(),
			"CLAUDE_CONFIG_DIR", "IS_SANDBOX", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
			"ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
			"ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
			"CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY",
			"CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_BEDROCK_BASE_URL", "AWS_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK",
			"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
			"CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION",
			"GOOGLE_APPLICATION_CREDENTIALS",
			"CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE",
		),
		Env: []string{
			// Else "@/a/file" in a message hands that file to the model, unasked.
			"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1",
			// The process ends with the turn: what it left to work in the
			// background would be killed, or begin turns that nobody asked for.
			"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
		},
		Modes: []Mode{ModeAsk, ModeRead, ModeEdit, ModeAll},
		Args: func(t Turn) []string {
			args := []string{
				"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
				// A question that is no call is asked in the reply: an approval cannot answer it.
				"--disallowedTools", "AskUserQuestion",
				"--permission-mode", map[Mode]string{ModeAsk: "default", ModeRead: "dontAsk", ModeEdit: "acceptEdits", ModeAll: "bypassPermissions"}[t.Mode],
			}
			if t.Mode == ModeAsk {
				args = append(args, "--permission-prompt-tool", "stdio")
			}
			if t.Model != "" {
				args = append(args, "--model", t.Model)
			}
			session := "--session-id"
			if t.Resume {
				session = "--resume"
			}
			return append(append(args, t.Args...), session, t.Session)
		},
		PresetSession: true,
		Prompt:        claudeMessage,
		Stdin: &StdinProtocol{
			Steer: claudeMessage,
			Allow: func(q Question) string {
				return claudeAnswer(q.ID, map[string]any{"behavior": "allow", "updatedInput": q.Arguments})
			},
			Deny: func(q Question, why string) string {
				return claudeAnswer(q.ID, map[string]any{"behavior": "deny", "message": why})
			},
			Ask: func(q Question) string {
				return claudeAnswer(q.ID, map[string]any{"behavior": "deny", "message": "A person is being asked. Stop here.", "interrupt": true})
			},
			Refuse: func(r Request) string {
				return line(map[string]any{"type": "control_response", "response": map[string]any{
					"subtype": "error", "request_id": r.ID, "error": "nobody here answers " + r.Kind,
				}})
			},
		},
		Decode:       decodeClaude,
		SessionGone:  []string{"no conversation found"},
		SessionBusy:  []string{"already in use"},
		StartRefused: []string{"error: unknown option", "error: option ", "cannot be used with root"},
		CheckEnvironment: func(p Environment) string {
			if sandbox, _ := p.Lookup("IS_SANDBOX"); p.Root && p.Mode == ModeAll && sandbox != "1" {
				return `as root it takes permissions "all" only with IS_SANDBOX=1 in its environment`
			}
			return ""
		},
	}
}

// line is a value as a line of JSON, with its end.
func line(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // made of texts, and of JSON that was read
	}
	return string(b) + "\n"
}

// claudeMessage is a message of the user. A slash at its very beginning would
// make it a command, with which whoever writes to the agent could set its model
// or its settings, or end its session.
func claudeMessage(text string) string {
	if strings.HasPrefix(text, "/") {
		text = "\n" + text
	}
	return line(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": text}})
}

func claudeAnswer(request string, answer map[string]any) string {
	return line(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": request, "response": answer,
	}})
}

// claudeLine is what is read of a line of claude.
type claudeLine struct {
	Type    string  `json:"type"`
	Subtype string  `json:"subtype"`
	Session string  `json:"session_id"`
	Parent  *string `json:"parent_tool_use_id"` // of what a helper of the agent does

	Event   json.RawMessage `json:"event"`
	Message json.RawMessage `json:"message"` // an object, and of permission_denied a text
	Request json.RawMessage `json:"request"`
	ID      string          `json:"request_id"`

	// Of system lines.
	Attempt    int    `json:"attempt"`
	MaxRetries int    `json:"max_retries"`
	Status     *int   `json:"error_status"`
	Error      any    `json:"error"`
	Tool       string `json:"tool_name"`

	claudeResult
}

func decodeClaude(raw []byte) ([]Event, error) {
	var l claudeLine
	if err := decodeLine(raw, &l); err != nil {
		return nil, err
	}
	switch l.Type {
	case "system":
		return l.system(), nil
	case "stream_event":
		if l.Parent != nil {
			return nil, nil
		}
		return claudeEvent(l.Event), nil
	case "assistant", "user":
		return claudeBlocks(l.Message, l.Parent != nil), nil
	case "control_request":
		return claudeRequest(l.ID, l.Request), nil
	case "result":
		return l.claudeResult.facts(l.Subtype), nil
	}
	return nil, nil
}

func (l *claudeLine) system() []Event {
	switch l.Subtype {
	case "init":
		return []Event{Session{ID: l.Session}}
	case "api_retry":
		why := fmt.Sprint(l.Error)
		if l.Status != nil {
			why = fmt.Sprintf("%d %s", *l.Status, why)
		}
		return []Event{Warning{Text: fmt.Sprintf("the model did not answer (%s), retry %d of %d", why, l.Attempt, l.MaxRetries)}}
	case "permission_denied":
		return []Event{Warning{Text: "not permitted: " + l.Tool}}
	}
	return nil
}

func claudeEvent(raw json.RawMessage) []Event {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			ID string `json:"id"`
		} `json:"message"`
		Delta struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"delta"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return nil
	}
	switch {
	case e.Type == "message_start":
		return []Event{MessageStarted{ID: e.Message.ID}}
	case e.Type == "content_block_delta" && e.Delta.Type == "text_delta":
		return []Event{Text{Text: e.Delta.Text}}
	}
	return nil
}

// claudeBlocks reads finished passages, calls of tools and their results. What a
// helper says to the agent is not said to us.
func claudeBlocks(raw json.RawMessage, helper bool) []Event {
	var m struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	}
	var blocks []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		ID      string          `json:"id"`
		Name    string          `json:"name"`
		Input   json.RawMessage `json:"input"`
		Call    string          `json:"tool_use_id"`
		Content json.RawMessage `json:"content"`
		IsError bool            `json:"is_error"`
	}
	// A user's text is not in blocks, and is ours.
	if json.Unmarshal(raw, &m) != nil || json.Unmarshal(m.Content, &blocks) != nil {
		return nil
	}
	var facts []Event
	for _, b := range blocks {
		switch {
		case b.Type == "text" && m.Role == "assistant" && !helper && m.Model != "<synthetic>":
			facts = append(facts, Passage{Message: m.ID, Text: b.Text})
		case b.Type == "tool_use":
			facts = append(facts, ToolStarted{Call: b.ID, Name: b.Name, Arguments: b.Input})
		case b.Type == "tool_result":
			facts = append(facts, ToolFinished{Call: b.Call, OK: !b.IsError, Summary: claudeText(b.Content)})
		}
	}
	return facts
}

// claudeText is the content of a tool's result: a text, or blocks.
func claudeText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(raw, &blocks) != nil {
		return string(raw)
	}
	var lines []string
	for _, b := range blocks {
		if b.Type != "text" {
			b.Text = "[" + b.Type + "]"
		}
		lines = append(lines, b.Text)
	}
	return strings.Join(lines, "\n")
}

func claudeRequest(id string, raw json.RawMessage) []Event {
	var r struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		Call    string          `json:"tool_use_id"`
		About   string          `json:"description"`
		Input   json.RawMessage `json:"input"`
	}
	if json.Unmarshal(raw, &r) != nil || r.Subtype != "can_use_tool" {
		return []Event{Request{ID: id, Kind: r.Subtype}}
	}
	if null(r.Input) {
		r.Input = json.RawMessage("{}")
	}
	return []Event{Question{ID: id, Call: r.Call, Tool: r.Tool, About: r.About, Arguments: r.Input}}
}

// claudeResult is the end of a turn. Its usage is the turn's, its cost the
// session's unless the models' shares since the last result are there.
type claudeResult struct {
	IsError   bool     `json:"is_error"`
	Result    string   `json:"result"`
	Errors    []string `json:"errors"`
	Reason    string   `json:"terminal_reason"`
	APIStatus *int     `json:"api_error_status"`
	APIError  string   `json:"api_error"`
	Cost      float64  `json:"total_cost_usd"`
	Usage     struct {
		Input   int64 `json:"input_tokens"`
		Created int64 `json:"cache_creation_input_tokens"`
		Read    int64 `json:"cache_read_input_tokens"`
		Output  int64 `json:"output_tokens"`
	} `json:"usage"`
	Shares map[string]struct {
		Cost float64 `json:"costUSD"`
	} `json:"model_usage_since_last_result"`
}

func (r *claudeResult) facts(subtype string) []Event {
	u := Usage{Usage: mailroom.Usage{
		InputTokens: r.Usage.Input + r.Usage.Created + r.Usage.Read, OutputTokens: r.Usage.Output, CostUSD: r.Cost,
	}, TotalCost: true}
	if r.Shares != nil {
		u.CostUSD, u.TotalCost = 0, false
		for _, share := range r.Shares {
			u.CostUSD += share.Cost
		}
	}
	return []Event{u, r.end(subtype)}
}

func (r *claudeResult) end(subtype string) End {
	why := r.Result
	if why == "" {
		why = strings.Join(r.Errors, "; ")
	}
	failed := End{Class: mailroom.ClassTransient, Message: why, RetryAfter: parseRetryAfter(why)}
	switch {
	case strings.HasPrefix(r.Reason, "aborted"):
		return End{Aborted: true, Class: mailroom.ClassTransient, Message: "the turn was interrupted"}
	case subtype == "success" && !r.IsError: // the one word says nothing without the other
		return End{OK: true, Text: r.Result}
	case r.APIStatus != nil:
		failed.Class = classOf(*r.APIStatus)
	case r.APIError == "connection_failed":
		failed.Class = mailroom.ClassUnavailable
	case strings.Contains(why, "/login"):
		failed.Class = mailroom.ClassPermanent
	case strings.HasPrefix(subtype, "error_max"):
		failed.Class = mailroom.ClassPermanent
	}
	if failed.Message == "" {
		failed.Message = "the turn ended with " + subtype
	}
	return failed
}
