package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// curl returns the example as a command for a shell in which URL and TOKEN are set. It returns "" for a WebSocket.
func (e Example) curl(op *huma.Operation) (string, error) {
	if op.Responses[fmt.Sprint(http.StatusSwitchingProtocols)] != nil {
		return "", nil
	}
	path, query := op.Path, url.Values{}
	for _, name := range slices.Sorted(maps.Keys(e.Parameters)) {
		if value := e.Parameters[name]; strings.Contains(path, "{"+name+"}") {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		} else {
			query.Set(name, value)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	command := "curl "
	if strings.HasPrefix(e.Type, "text/event-stream") {
		command += "-N " // show each event at once
	}
	if plain := http.MethodGet; len(e.Request) > 0 {
		plain = http.MethodPost
		if op.Method != plain {
			command += "-X " + op.Method + " "
		}
	} else if op.Method != plain {
		command += "-X " + op.Method + " "
	}
	lines := []string{command + `"$URL` + path + `"`}
	if op.Security == nil || len(op.Security) > 0 {
		lines = append(lines, `-H "Authorization: Bearer $TOKEN"`)
	}
	if op.OperationID == "mcp" { // the protocol requires both
		lines = append(lines, `-H "Accept: application/json, text/event-stream"`)
	}
	if op.RequestBody != nil && op.RequestBody.Content["application/json"] == nil {
		lines = append(lines, `-H "Content-Type: application/octet-stream"`, "--data-binary @FILE")
	} else if len(e.Request) > 0 {
		body, err := indent(e.Request)
		if err != nil {
			return "", err
		}
		if len(body) < 80 || strings.Count(body, "\n") < 4 {
			var flat bytes.Buffer
			if err := json.Compact(&flat, e.Request); err != nil {
				return "", err
			}
			body = flat.String()
		}
		lines = append(lines, `-H "Content-Type: application/json"`, "-d '"+strings.ReplaceAll(body, "'", `'\''`)+"'")
	}
	return strings.Join(lines, " \\\n  "), nil
}

// answer returns the body of the answer for readers: JSON with a line for each field, or a text.
func (e Example) answer() (string, error) {
	if len(e.Response) == 0 {
		return "", nil
	}
	if strings.HasSuffix(e.Type, "json") {
		return indent(e.Response)
	}
	var text string
	if err := json.Unmarshal(e.Response, &text); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(text), nil
}

// indent formats JSON, or a value as JSON, for readers.
func indent(v any) (string, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return "", err
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return "", fmt.Errorf("format an example: %w", err)
	}
	return out.String(), nil
}
