package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// ConfigureGemini writes a configuration to home that makes gemini use the model at url, and returns the variables that
// do the same.
func ConfigureGemini(home, url string) (map[string]string, error) {
	dir := filepath.Join(home, ".gemini")
	config := `{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"disableAutoUpdate":true},` +
		`"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"model":{"name":"fake-1"}}`
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("configure gemini: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure gemini: %w", err)
	}
	return map[string]string{"GEMINI_API_KEY": "no-key", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_HOME": home,
		"GEMINI_CLI_TRUST_WORKSPACE": "true"}, nil
}

// geminiPart is a part of a turn in the Gemini API.
type geminiPart struct {
	Text string `json:"text,omitempty"`
	Call *struct {
		Name string `json:"name"`
		Args any    `json:"args"`
	} `json:"functionCall,omitempty"`
	Response *struct {
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse,omitempty"`
}

// parseGemini parses a request of the Gemini API. path is the last word of its URL, such as m:streamGenerateContent.
func parseGemini(path string, body []byte) (Request, error) {
	var in struct {
		Contents []struct {
			Role  string       `json:"role"`
			Parts []geminiPart `json:"parts"`
		} `json:"contents"`
		System struct {
			Parts []geminiPart `json:"parts"`
		} `json:"systemInstruction"`
		Tools []struct {
			Functions []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("parse a %s request: %w", APIGemini, err)
	}
	r := Request{API: APIGemini, Body: body}
	r.Model, _, _ = strings.Cut(path, ":")
	for _, p := range in.System.Parts {
		r.System += p.Text
	}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	for _, c := range in.Contents {
		role := c.Role
		if role == "model" {
			role = "assistant"
		}
		for _, p := range c.Parts {
			r.Turns = append(r.Turns, p.turn(role))
		}
	}
	return r, nil
}

func (p geminiPart) turn(role string) Turn {
	switch {
	case p.Call != nil:
		return Turn{"tool-call", p.Call.Name + " " + encode(p.Call.Args)}
	case p.Response != nil:
		var out struct {
			Output string `json:"output"`
		}
		if json.Unmarshal(p.Response.Response, &out) == nil && out.Output != "" {
			return Turn{"tool-result", out.Output}
		}
		return Turn{"tool-result", string(p.Response.Response)}
	}
	return Turn{role, p.Text}
}

// gemini writes an answer of the Gemini API: as server-sent events, or as one object without Hold, Hang and Cut.
func (o *stream) gemini(a Answer, events bool) {
	calls := []any{}
	for _, c := range a.Calls {
		calls = append(calls, map[string]any{"functionCall": map[string]any{"name": c.Name, "args": c.Input}})
	}
	said := func(text string) any { return map[string]any{"text": text} }
	if !events {
		parts := calls
		if len(a.Text) > 0 {
			parts = append([]any{said(join(a.Text))}, calls...)
		}
		o.w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(o.w, encode(geminiAnswer(parts, true))) // fails only if the client closed the connection
		return
	}
	o.writeHeader()
	for _, piece := range a.Text {
		o.send("", geminiAnswer([]any{said(piece)}, false))
	}
	if a.Hold != nil && !o.wait(a.Hold) {
		return
	}
	if len(calls) > 0 {
		o.send("", geminiAnswer(calls, false))
	}
	if o.finish(a) {
		o.send("", geminiAnswer([]any{said("")}, true))
	}
}

// geminiAnswer returns a part of an answer. The last one has the reason of the end and the usage.
func geminiAnswer(parts []any, last bool) map[string]any {
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	answer := map[string]any{"candidates": []any{candidate}}
	if last {
		candidate["finishReason"] = "STOP"
		answer["usageMetadata"] = map[string]any{"promptTokenCount": InputTokens,
			"cachedContentTokenCount": CachedTokens, "candidatesTokenCount": OutputTokens,
			"totalTokenCount": InputTokens + OutputTokens}
	}
	return answer
}

// handleGemini serves a call of the Gemini API.
func (s *Server) handleGemini(w http.ResponseWriter, r *http.Request) { s.handleTurn(w, r, APIGemini) }
