package reference

import (
	_ "embed" // examples.json
	"encoding/json"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/api"
)

// examples are requests to a real server and its answers. The test that compares them with a server of today writes the
// file with -update.
//
// archtest: embedded, never written.
//
//go:embed examples.json
var examples []byte

// recording is the content of examples.
type recording struct {
	Operations map[string]Example     `json:"operations"`
	Refusals   map[string]api.Problem `json:"refusals"` // problems of refused requests by status
}

// Example is one request to an operation and its answer. Bodies are JSON; one that is not is a JSON string.
type Example struct {
	Parameters map[string]string `json:"parameters,omitempty"` // values by name
	Request    json.RawMessage   `json:"request,omitempty"`
	Status     int               `json:"status"`
	Type       string            `json:"type,omitempty"` // media type of the answer
	Response   json.RawMessage   `json:"response,omitempty"`
}

func parseExamples(raw []byte) (recording, error) {
	var all recording
	if err := json.Unmarshal(raw, &all); err != nil {
		return all, fmt.Errorf("read the examples: %w", err)
	}
	return all, nil
}

// addTo adds the example to an operation whose responses may be changed. Other operations share the values below the
// responses, so addTo copies them.
func (e Example) addTo(op *huma.Operation) {
	op.Parameters = append([]*huma.Param{}, op.Parameters...)
	for i, p := range op.Parameters {
		if value, ok := e.Parameters[p.Name]; ok {
			changed := *p
			changed.Example = value
			if p.Schema.Type == huma.TypeInteger {
				changed.Example = json.RawMessage(value)
			}
			op.Parameters[i] = &changed
		}
	}
	if body := op.RequestBody; body != nil && len(e.Request) > 0 {
		changed := *body
		for kind := range body.Content { // each operation takes one
			changed.Content = withExample(body.Content, kind, e.Request)
		}
		op.RequestBody = &changed
	}
	if r := op.Responses[fmt.Sprint(e.Status)]; r != nil && r.Ref == "" && len(e.Response) > 0 {
		changed := *r
		changed.Content = withExample(r.Content, e.Type, e.Response)
		op.Responses[fmt.Sprint(e.Status)] = &changed
	}
}

func withExample(content map[string]*huma.MediaType, kind string, example json.RawMessage) map[string]*huma.MediaType {
	out := map[string]*huma.MediaType{}
	for name, media := range content {
		if name == kind {
			changed := *media
			changed.Example, media = example, &changed
		}
		out[name] = media
	}
	return out
}
