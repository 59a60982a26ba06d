package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Request is one request of a program to the model.
type Request struct {
	API    string // APIResponses, APIMessages or APIGemini
	Model  string
	Header http.Header
	Tools  []string // names of the available tools
	System string
	// Turns is the conversation, oldest first.
	Turns []Turn
	Body  []byte // body as received
}

// Turn is one part of the conversation.
type Turn struct {
	Role string // user, assistant, tool-call, tool-result, or another role that the program uses
	Text string
}

// Prompt returns the last text of the user, without reminders that the program adds.
func (r Request) Prompt() string {
	for _, t := range slices.Backward(r.Turns) {
		if t.Role == "user" && !strings.HasPrefix(t.Text, "<") { // <environment_context>, <system-reminder>
			return t.Text
		}
	}
	return ""
}

// Result returns the text of the last turn if that is a tool result. Turns that the
// program adds after it, such as steering messages, are skipped.
func (r Request) Result() (text string, ok bool) {
	for _, t := range slices.Backward(r.Turns) {
		switch t.Role {
		case "system", "developer":
			continue
		case "tool-result":
			return t.Text, true
		default:
			return "", false
		}
	}
	return "", false
}

// Contains reports whether a turn contains text.
func (r Request) Contains(text string) bool {
	for _, t := range r.Turns {
		if strings.Contains(t.Text, text) {
			return true
		}
	}
	return false
}

type part struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`
	Content json.RawMessage `json:"content"`
	// Set for tool calls and their results.
	Arguments string          `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
}

func parseRequest(api string, body []byte) (Request, error) {
	var in struct {
		Model        string          `json:"model"`
		Instructions string          `json:"instructions"`
		System       json.RawMessage `json:"system"`
		Input        []part          `json:"input"`
		Messages     []part          `json:"messages"`
		Tools        []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("parse a %s request: %w", api, err)
	}
	r := Request{API: api, Model: in.Model, System: in.Instructions, Body: body}
	if len(in.System) > 0 {
		r.System = text(in.System)
	}
	for _, t := range in.Tools {
		name := t.Name
		if name == "" {
			name = t.Type
		}
		r.Tools = append(r.Tools, name)
	}
	for _, p := range append(in.Input, in.Messages...) {
		r.Turns = append(r.Turns, p.turns(p.Role)...)
	}
	return r, nil
}

func (p part) turns(role string) []Turn {
	switch p.Type {
	case "function_call", "custom_tool_call", "tool_use":
		return []Turn{{"tool-call", p.Name + " " + p.Arguments + string(p.Input)}}
	case "function_call_output", "custom_tool_call_output":
		return []Turn{{"tool-result", text(p.Output)}}
	case "tool_result":
		return []Turn{{"tool-result", text(p.Content)}}
	case "text", "input_text", "output_text":
		return []Turn{{role, p.Text}}
	case "", "message":
		var parts []part
		if json.Unmarshal(p.Content, &parts) != nil {
			return []Turn{{role, text(p.Content)}}
		}
		var turns []Turn
		for _, inner := range parts {
			turns = append(turns, inner.turns(role)...)
		}
		return turns
	default:
		return []Turn{{p.Type, ""}}
	}
}

// text returns the text of raw, which is a string or a list of parts.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}
