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
	api     func() *huma.OpenAPI // made at the first call
	options reference.Options
	page    func(html []byte) http.Handler // see Parts.Page
}

// reference registers what describes the API. None of it needs a token. To make, complete, encode and render the
// description takes longer than the rest of a start, so it waits for the first request, and is done once.
func (rt router) reference(h *referenceHandlers) {
	encoded := sync.OnceValues(func() ([]byte, error) {
		described, err := reference.Complete(h.api(), h.options)
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
	if h.page == nil {
		return
	}
	rendered := sync.OnceValues(func() (http.Handler, error) {
		html, err := reference.Page(h.api(), h.options)
		if err != nil {
			return nil, err
		}
		return h.page(html), nil
	})
	rt.public("GET /docs/api", func(w http.ResponseWriter, r *http.Request) {
		page, err := rendered()
		if err == nil {
			err = checkQuery(r.URL.Query(), nil)
		}
		if err != nil {
			refuse(w.(*response), r, err)
			return
		}
		page.ServeHTTP(w, r)
	})
}
