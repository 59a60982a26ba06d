// Package agentmail serves the agent mail HTTP protocol under /api, by which client libraries of
// agents reserve issues and notify each other. It has no rules of its own: each request becomes one
// request to the API with the caller's credentials.
//
// Names follow the client libraries: a reservation has a file_path and an agent_name, a
// notification an event_type and a payload; a ttl is in seconds.
package agentmail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/project"
)

// ProjectHeader names the project of a request. Without it the default project is used.
const ProjectHeader = "X-Project"

// issuePrefix is the path prefix that the libraries use for issues.
const issuePrefix = ".beads/issues/"

// Route is one endpoint of the protocol.
type Route struct {
	Pattern string // method and path, in the syntax of [http.ServeMux]
	Name    string
	Summary string
	Status  int // HTTP status of a success
	Open    bool
	Serve   func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper)
}

// Parameters says what the parameters of the routes mean, by name.
func Parameters() map[string]string {
	return map[string]string{
		"agent": "Name of the agent.",
		"id":    "Id of an issue, or the path of a file with its slashes, as it was reserved.",
	}
}

// Routes returns all routes. The caller must put the server's authentication and limits in front of
// each; inside executes the internal requests of a route.
func Routes() []Route {
	return []Route{
		{"GET /api/health", "agentmail-health", "Whether the server answers", http.StatusOK, true,
			handle(http.StatusOK, health)},
		{"POST /api/reservations", "agentmail-reserve", "Reserve an issue or a file", http.StatusCreated, false,
			handle(http.StatusCreated, reserve)},
		{"GET /api/reservations", "agentmail-reservations", "List reservations", http.StatusOK, false,
			handle(http.StatusOK, listReservations)},
		{"DELETE /api/reservations/{agent}/{id...}", "agentmail-release", "Release an issue or a file", http.StatusNoContent,
			false, handle(http.StatusNoContent, release)},
		{"POST /api/notifications", "agentmail-notify", "Notify the other agents", http.StatusCreated, false,
			handle(http.StatusCreated, notify)},
		{"GET /api/notifications/{agent}", "agentmail-inbox", "Read an agent's notifications and mark them as read",
			http.StatusOK, false, handle(http.StatusOK, readNotifications)},
	}
}

// call is one request of the protocol with its client.
type call struct {
	*http.Request
	projects client.Projects
	project  string
}

// handle serves the result of f, and its error in the protocol's format.
func handle(
	status int, f func(context.Context, call) (any, error),
) func(http.ResponseWriter, *http.Request, http.RoundTripper) {
	return func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
		// The client does not retry, because an error of the server's own API is final.
		c := client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: inside}),
			client.WithMaxAttempts(1), client.WithRetryTimeout(time.Nanosecond))
		body, err := f(r.Context(), call{r, c.Projects, r.Header.Get(ProjectHeader)})
		if err != nil {
			status, body := errorBody(w.Header(), err)
			write(w, status, body)
			return
		}
		write(w, status, body)
	}
}

func write(w http.ResponseWriter, status int, body any) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // cannot fail: strings, times and validated JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client may have disconnected
}

// errorResponse is the body of an error. Holder and ExpiresAt describe a conflicting reservation.
type errorResponse struct {
	Error     string     `json:"error"`
	Holder    string     `json:"holder,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func errorBody(h http.Header, err error) (status int, body errorResponse) {
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok {
		e = mailroom.Errorf(mailroom.CodeInternal, "internal error")
	}
	if status = api.StatusOf(e.Code); e.Code == mailroom.CodeInvalid {
		status = http.StatusBadRequest
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	body.Error = translateFields(e.Message)
	if held, ok := errors.AsType[*project.ReservedError](err); ok {
		body.Holder, body.ExpiresAt = held.By[0].Holder, &held.By[0].ExpiresAt
		body.Error = fmt.Sprintf("%s is reserved by %s", held.By[0].Name, body.Holder)
	}
	return status, body
}

// translateFields replaces the field name at the start of an error message by the protocol's name.
func translateFields(message string) string {
	for ours, theirs := range map[string]string{
		"names:": "file_path:", "holder:": "agent_name:", "from:": "from_agent:", "event:": "event_type:",
		"data:": "payload:",
	} {
		if rest, ok := strings.CutPrefix(message, ours); ok {
			return theirs + rest
		}
	}
	return message
}

// decode decodes the body. Unknown fields are ignored.
func (c call) decode(into any) error {
	if err := json.NewDecoder(c.Body).Decode(into); err != nil {
		return mailroom.Errorf(mailroom.CodeInvalid, "invalid body: %v", err)
	}
	return nil
}

func health(context.Context, call) (any, error) {
	return map[string]string{"status": "ok"}, nil
}
