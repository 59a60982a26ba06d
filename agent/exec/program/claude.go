package program

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/lazyregexp"
)

// claude is the profile of Anthropic's Claude Code, with JSON lines in both directions. It accepts
// the id of a new session, asks before it uses a tool, and reads further messages while it works.
func claude() *Profile {
	return &Profile{
		Name: "claude", Program: "claude", Version: []string{"--version"}, ReportsCost: true,
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
			// Without this variable, "@/a/file" in a message sends that file to the model.
			"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1",
			// The process ends with the turn. Background tasks would be killed then, or would start turns that no
			// message asked for.
			"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
		},
		Modes: []Mode{ModeAsk, ModeRead, ModeEdit, ModeAll},
		Args: func(t Turn) []string {
			args := []string{
				"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
				// An approval ticket cannot answer a free-form question. So this tool is disabled, and the model asks
				// in its reply.
				"--disallowedTools", "AskUserQuestion",
				"--permission-mode", map[Mode]string{ModeAsk: "default", ModeRead: "dontAsk", ModeEdit: "acceptEdits",
					ModeAll: "bypassPermissions"}[t.Mode],
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
				return claudeAnswer(q.ID, map[string]any{"behavior": "deny", "message": "A person is being asked. Stop here.",
					"interrupt": true})
			},
			Refuse: func(r Request) string {
				return line(map[string]any{"type": "control_response", "response": map[string]any{
					"subtype": "error", "request_id": r.ID, "error": "unsupported request " + r.Kind,
				}})
			},
		},
		Decode:       decodeClaude,
		SessionGone:  []string{"no conversation found"},
		SessionBusy:  []string{"already in use"},
		StartRefused: []string{"error: unknown option", "error: option ", "cannot be used with root"},
		CheckEnvironment: func(p Environment) string {
			if sandbox, _ := p.Lookup("IS_SANDBOX"); p.Root && p.Mode == ModeAll && sandbox != "1" {
				return `running as root, permissions "all" needs IS_SANDBOX=1 in its environment`
			}
			return ""
		},
	}
}

// line returns a value as a line of JSON.
func line(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // cannot fail: strings and parsed JSON
	}
	return string(b) + "\n"
}

// claudeMessage returns a user message. It keeps a leading slash from making the message a command of the program.
// With such a command, any sender could change the agent's model or settings, or end its session.
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

// claudeLine has those fields of a line of claude that this package uses.
type claudeLine struct {
	Type    string  `json:"type"`
	Subtype string  `json:"subtype"`
	Session string  `json:"session_id"`
	Parent  *string `json:"parent_tool_use_id"` // set for subagents

	Event   json.RawMessage `json:"event"`
	Message json.RawMessage `json:"message"` // an object; a string in permission_denied
	Request json.RawMessage `json:"request"`
	ID      string          `json:"request_id"`

	// The fields below are for lines of the type system.
	Attempt    int    `json:"attempt"`
	MaxRetries int    `json:"max_retries"`
	Status     *int   `json:"error_status"`
	Error      any    `json:"error"`
	Tool       string `json:"tool_name"`

	Limit claudeLimit `json:"rate_limit_info"`

	claudeResult
}

// claudeLimit is the state of one usage limit, such as the limit of five hours. ResetsAt is in seconds since 1970.
type claudeLimit struct {
	Status   string  `json:"status"`
	ResetsAt float64 `json:"resetsAt"`
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
	case "rate_limit_event":
		if l.Limit.Status == "rejected" && l.Limit.ResetsAt > 0 && l.Limit.ResetsAt < 1e11 {
			return []Event{Limit{End: time.Unix(int64(l.Limit.ResetsAt), 0)}}, nil
		}
	case "control_request":
		return claudeRequest(l.ID, l.Request), nil
	case "result":
		return l.claudeResult.events(l.Subtype), nil
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
		return []Event{Warning{Text: fmt.Sprintf("no answer from the model (%s), retry %d of %d", why, l.Attempt,
			l.MaxRetries)}}
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
			Type     string `json:"type"`
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
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
	case e.Type == "content_block_delta" && e.Delta.Type == "thinking_delta":
		return []Event{Thinking{Text: e.Delta.Thinking}}
	}
	return nil
}

// claudeBlocks decodes passages, tool calls and their results. helper is set for lines of a subagent, whose text is
// not part of the reply.
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
	// A user message with plain text only repeats the input.
	if json.Unmarshal(raw, &m) != nil || json.Unmarshal(m.Content, &blocks) != nil {
		return nil
	}
	var events []Event
	for _, b := range blocks {
		switch {
		case b.Type == "text" && m.Role == "assistant" && helper:
		case b.Type == "text" && m.Role == "assistant" && m.Model == "<synthetic>":
			events = append(events, Notice{Text: b.Text})
		case b.Type == "text" && m.Role == "assistant":
			events = append(events, Passage{Message: m.ID, Text: b.Text})
		case b.Type == "tool_use":
			events = append(events, ToolStarted{Call: b.ID, Name: b.Name, Arguments: b.Input, Helper: helper})
		case b.Type == "tool_result":
			events = append(events, ToolFinished{Call: b.Call, OK: !b.IsError, Summary: claudeText(b.Content)})
		}
	}
	return events
}

// claudeText returns the content of a tool's result, a string or blocks, as text.
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

// claudeResult is the final line of a turn. The usage is that of the turn. The cost is that of the whole session,
// unless the line has the shares of each model since the last result.
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

func (r *claudeResult) events(subtype string) []Event {
	u := Usage{Usage: mailroom.Usage{
		InputTokens: r.Usage.Input + r.Usage.Created + r.Usage.Read, OutputTokens: r.Usage.Output, CostUSD: r.Cost,
		CacheReadTokens: r.Usage.Read, CacheWriteTokens: r.Usage.Created,
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
	failed := End{Message: why}
	switch {
	case strings.HasPrefix(r.Reason, "aborted"):
		return End{Aborted: true, Class: mailroom.ClassTransient, Message: "the turn was interrupted"}
	case subtype == "success" && !r.IsError: // claude may write "success" beside is_error: true
		return End{OK: true, Text: r.Result}
	case r.APIStatus != nil:
		failed.Status = *r.APIStatus
	case r.APIError == "connection_failed":
		failed.Class = mailroom.ClassUnavailable
	case strings.HasPrefix(subtype, "error_max"):
		failed.Class = mailroom.ClassPermanent
	default:
		failed.Status = claudeStatus(why)
	}
	if failed.Message == "" {
		failed.Message = "the turn ended with " + subtype
	}
	return failed
}

// apiError matches the beginning of the text that claude writes for an error of the API: "API Error: 400 …".
var apiError = lazyregexp.New(`^API Error(?: \()?:? ?([0-9]{3})\b`)

// claudeStatus returns the HTTP status that a message of claude names, or 0 if it names none.
func claudeStatus(message string) int {
	m := apiError().FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	status, _ := strconv.Atoi(m[1]) // three digits
	return status
}
