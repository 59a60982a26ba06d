package program

import (
	"encoding/json"
	"strings"
)

// The types of this file are the part of the Agent Client Protocol, version 1, that this package speaks: JSON-RPC 2.0,
// one message per line. acp_schema_test.go compares them with the schema of the protocol. Fields that are not named
// here are ignored, because agents send fields of drafts.

// acpVersion is the version of the protocol, the only one that this package speaks.
const acpVersion = 1

// Methods that this package calls or answers.
const (
	acpInitialize  = "initialize"
	acpNew         = "session/new"
	acpLoad        = "session/load"   // replays the conversation as updates before it answers
	acpResume      = "session/resume" // replays nothing
	acpSetMode     = "session/set_mode"
	acpSetOption   = "session/set_config_option"
	acpPrompt      = "session/prompt" // answered at the end of the turn
	acpCancel      = "session/cancel"
	acpUpdate      = "session/update"
	acpPermission  = "session/request_permission"
	acpSteering    = "_session/steering" // an extension, see acpSteeringMeta
	acpConfigMode  = "mode"              // category of a configuration option
	acpConfigModel = "model"             // category of a configuration option
)

// Error codes of JSON-RPC and of the protocol.
const (
	acpMethodNotFound   = -32601
	acpInvalidParams    = -32602
	acpAuthRequired     = -32000
	acpResourceNotFound = -32002
)

// acpMessage is one line: a request has an id and a method, a notification only a method, an answer only an id.
type acpMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *acpError       `json:"error,omitempty"`
}

type acpError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// text returns the error in words, with the data, in which some agents hide the reason.
func (e *acpError) text() string {
	if null(e.Data) || string(e.Data) == "{}" {
		return e.Message
	}
	var data string
	if json.Unmarshal(e.Data, &data) != nil {
		data = string(e.Data)
	}
	return e.Message + ": " + data
}

type acpInitializeRequest struct {
	ProtocolVersion    int                   `json:"protocolVersion"`
	ClientCapabilities acpClientCapabilities `json:"clientCapabilities"`
	ClientInfo         acpImplementation     `json:"clientInfo"`
}

// acpClientCapabilities are what the client offers. It offers nothing: the agent uses the files and the terminal of its
// own process, which Mailroom isolates and stops.
type acpClientCapabilities struct {
	FS struct {
		Read  bool `json:"readTextFile"`
		Write bool `json:"writeTextFile"`
	} `json:"fs"`
	Terminal bool `json:"terminal"`
}

type acpImplementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type acpInitializeResponse struct {
	ProtocolVersion   int                `json:"protocolVersion"`
	AgentInfo         *acpImplementation `json:"agentInfo,omitempty"`
	AgentCapabilities struct {
		LoadSession bool `json:"loadSession,omitempty"`
		Session     struct {
			Resume json.RawMessage `json:"resume,omitempty"`
		} `json:"sessionCapabilities,omitzero"`
	} `json:"agentCapabilities,omitzero"`
	AuthMethods []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"authMethods,omitempty"`
	Meta struct {
		Steering struct {
			Supported bool `json:"supported"`
		} `json:"steering"`
	} `json:"_meta,omitzero"`
}

// acpSessionRequest are the parameters of session/new, session/load and session/resume.
type acpSessionRequest struct {
	SessionID  string     `json:"sessionId,omitempty"`
	Cwd        string     `json:"cwd"`
	MCPServers []struct{} `json:"mcpServers"`
}

// acpSessionResponse is the answer to an [acpSessionRequest].
type acpSessionResponse struct {
	SessionID string `json:"sessionId,omitempty"`
	Modes     *struct {
		Current   string    `json:"currentModeId"`
		Available []acpMode `json:"availableModes"`
	} `json:"modes,omitempty"`
	Options []acpConfigOption `json:"configOptions,omitempty"`
}

type acpMode struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// acpConfigOption is a setting of a session.
type acpConfigOption struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Category string          `json:"category,omitempty"`
	Type     string          `json:"type"`
	Current  any             `json:"currentValue"`
	Choices  json.RawMessage `json:"options,omitempty"`
}

// values returns the values that a setting can have. They may be in groups.
func (o acpConfigOption) values() (values []string) {
	type choice struct {
		Value string `json:"value"`
	}
	var all []struct {
		choice
		Options []choice `json:"options"`
	}
	if json.Unmarshal(o.Choices, &all) != nil {
		return nil
	}
	for _, c := range all {
		if c.Value != "" {
			values = append(values, c.Value)
		}
		for _, in := range c.Options {
			values = append(values, in.Value)
		}
	}
	return values
}

type acpSetModeRequest struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

type acpSetOptionRequest struct {
	SessionID string `json:"sessionId"`
	ConfigID  string `json:"configId"`
	Value     string `json:"value"`
}

type acpPromptRequest struct {
	SessionID string       `json:"sessionId"`
	Prompt    []acpContent `json:"prompt"`
}

// acpSteeringRequest gives the turn that runs another message. It is no part of the protocol, but an extension that
// codex-acp and claude-agent-acp document, and announce in the answer to initialize.
type acpSteeringRequest struct {
	acpPromptRequest
	Meta acpSteeringMeta `json:"_meta"`
}

// acpSteeringMeta asks the agent to leave a message to the client if no turn runs, instead of beginning one whose end
// no answer reports.
type acpSteeringMeta struct {
	Steering struct {
		IdleBehavior string `json:"idleBehavior"`
	} `json:"steering"`
}

// acpInjected is the outcome of a steering request whose message is in the turn. The others are promptRequired, failed,
// and startedNewTurn of an agent that does not know acpSteeringMeta.
const acpInjected = "injected"

type acpSteeringResponse struct {
	Outcome string `json:"outcome"`
}

type acpCancelNotification struct {
	SessionID string `json:"sessionId"`
}

// acpContent is a block of content. Text is set for type text, URI and Name for a resource_link.
type acpContent struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	URI  string `json:"uri,omitempty"`
	Name string `json:"name,omitempty"`
}

// text returns a block as text.
func (c acpContent) text() string {
	switch c.Type {
	case "text":
		return c.Text
	case "resource_link":
		return c.URI
	}
	return "[" + c.Type + "]"
}

type acpPromptResponse struct {
	StopReason string `json:"stopReason"`
	// Usage is in no stable version of the protocol. It counts the tokens of the turn.
	Usage *struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cachedReadTokens"`
		CacheWrite int64 `json:"cachedWriteTokens"`
		Thought    int64 `json:"thoughtTokens"`
	} `json:"usage,omitempty"`
	// Meta has what gemini 0.61 sends instead. Its input contains what was read from a cache.
	Meta struct {
		Quota struct {
			Tokens struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
		} `json:"quota"`
	} `json:"_meta,omitzero"`
}

type acpSessionNotification struct {
	SessionID string    `json:"sessionId"`
	Update    acpChange `json:"update"`
}

// acpChange is an update of a session. Kind says which of the other fields are set.
type acpChange struct {
	Kind string `json:"sessionUpdate"`

	// Chunks of messages. Content is one block there, and a list of [acpToolContent] in calls of tools.
	MessageID string          `json:"messageId,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`

	acpToolCall

	ModeID string   `json:"currentModeId,omitempty"` // current_mode_update
	Cost   *acpCost `json:"cost,omitempty"`          // usage_update: of the session since its start
}

type acpCost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// acpToolCall is a call of a tool, or what has changed of one.
type acpToolCall struct {
	CallID    string          `json:"toolCallId,omitempty"`
	Title     string          `json:"title,omitempty"`
	Name      string          `json:"name,omitempty"` // of the tool; most agents do not send it
	ToolKind  string          `json:"kind,omitempty"`
	Status    string          `json:"status,omitempty"`
	RawInput  json.RawMessage `json:"rawInput,omitempty"`
	RawOutput json.RawMessage `json:"rawOutput,omitempty"`
	Locations []acpLocation   `json:"locations,omitempty"`
}

type acpLocation struct {
	Path string `json:"path"`
	Line *int   `json:"line,omitempty"`
}

// acpToolContent is what a call of a tool has produced.
type acpToolContent struct {
	Type    string     `json:"type"`
	Content acpContent `json:"content,omitzero"` // for type content
	Path    string     `json:"path,omitempty"`   // for type diff
	NewText string     `json:"newText,omitempty"`
}

func (c acpToolContent) text() string {
	switch c.Type {
	case "content":
		return c.Content.text()
	case "diff":
		return c.Path + "\n" + c.NewText
	}
	return ""
}

// acpOutput returns the content of a call as text.
func acpOutput(raw json.RawMessage) string {
	var all []acpToolContent
	if json.Unmarshal(raw, &all) != nil {
		return ""
	}
	var lines []string
	for _, c := range all {
		if text := c.text(); text != "" {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "\n")
}

type acpPermissionRequest struct {
	SessionID string `json:"sessionId"`
	ToolCall  struct {
		acpToolCall
		Content json.RawMessage `json:"content,omitempty"`
	} `json:"toolCall"`
	Options []acpPermissionOption `json:"options"`
}

type acpPermissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type acpPermissionResponse struct {
	Outcome acpPermissionOutcome `json:"outcome"`
}

// acpPermissionOutcome is the answer to a request for permission: cancelled, or selected with an option.
type acpPermissionOutcome struct {
	Outcome  string `json:"outcome"`
	OptionID string `json:"optionId,omitempty"`
}
