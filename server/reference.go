package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/server/reference"
)

// referenceHandlers serve the description of the API.
type referenceHandlers struct {
	api     *huma.OpenAPI
	options reference.Options
}

// reference registers what describes the API. None of it needs a token. To complete and encode the description takes
// longer than the rest of a start, so it waits for the first request.
func (rt router) reference(h *referenceHandlers) {
	encoded := sync.OnceValues(func() ([]byte, error) {
		described, err := reference.Complete(h.api, h.options)
		if err != nil {
			return nil, err
		}
		return json.Marshal(described)
	})
	rt.public("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		raw, err := encoded()
		if err != nil { // a mistake in this package's own types or texts
			refuse(w.(*response), r, fmt.Errorf("describe the API: %w", err))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(raw) // response keeps the error for the log line
	})
}
