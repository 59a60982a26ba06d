// Package agentmail speaks the dialect of HTTP that client libraries of agents use
// to reserve issues and to notify each other, at paths under /api. It has no rules
// of its own: each request becomes one to the API, in the name of whoever sent it.
//
// Its words are those of the client libraries: a reservation has a file_path and an
// agent_name, a notification an event_type and a payload; times to live are seconds.
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
)

// ProjectHeader names the project of a request. Who sends none is in the default one.
const ProjectHeader = "X-Project"

// issues is where the libraries say that issues are.
const issues = ".beads/issues/"

// Route is one call of the dialect.
type Route struct {
	Pattern string // as [http.ServeMux] has them
	Name    string
	Summary string
	Status  int // of the usual answer
	Open    bool
	Serve   func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper)
}

// Routes are all there are. Behind each is to be a server's gates; inside carries
// out the requests that they make.
func Routes() []Route {
	return []Route{
		{"GET /api/health", "agentmail-health", "Whether the server answers", http.StatusOK, true, answer(http.StatusOK, health)},
		{"POST /api/reservations", "agentmail-reserve", "Reserve an issue or a file", http.StatusCreated, false, answer(http.StatusCreated, reserve)},
		{"GET /api/reservations", "agentmail-reservations", "What is reserved", http.StatusOK, false, answer(http.StatusOK, list)},
		{"DELETE /api/reservations/{agent}/{id...}", "agentmail-release", "Release an issue or a file", http.StatusNoContent, false, answer(http.StatusNoContent, release)},
		{"POST /api/notifications", "agentmail-notify", "Tell the other agents something", http.StatusCreated, false, answer(http.StatusCreated, notify)},
		{"GET /api/notifications/{agent}", "agentmail-inbox", "What an agent was told, which counts as read then", http.StatusOK, false, answer(http.StatusOK, inbox)},
	}
}

// call is a request of the dialect.
type call struct {
	*http.Request
	api     *client.Client
	project string
}

// answer serves what f returns, and its errors in the dialect's words.
func answer(status int, f func(context.Context, call) (any, error)) func(http.ResponseWriter, *http.Request, http.RoundTripper) {
	return func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
		// Nothing is tried again: what the server refuses to itself, it refuses.
		api := client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: inside}),
			client.WithMaxAttempts(1), client.WithRetryTimeout(time.Nanosecond))
		body, err := f(r.Context(), call{r, api, r.Header.Get(ProjectHeader)})
		if err != nil {
			status, body := refusal(w.Header(), err)
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
		panic(err) // texts, times, and JSON that was checked
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // who has gone needs no answer
}

// failure is the body of a refusal. Holder and ExpiresAt are of who holds what was
// to be reserved.
type failure struct {
	Error     string     `json:"error"`
	Holder    string     `json:"holder,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func refusal(h http.Header, err error) (status int, body failure) {
	e, ok := errors.AsType[*mailroom.Error](err)
	if !ok {
		e = mailroom.Errorf(mailroom.CodeInternal, "the server failed")
	}
	if status = api.StatusOf(e.Code); e.Code == mailroom.CodeInvalid {
		status = http.StatusBadRequest
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	body.Error = dialect(e.Message)
	if held, ok := errors.AsType[*mailroom.ReservedError](err); ok {
		body.Holder, body.ExpiresAt = held.By[0].Holder, &held.By[0].ExpiresAt
		body.Error = fmt.Sprintf("%s is reserved by %s", held.By[0].Name, body.Holder)
	}
	return status, body
}

// dialect says what is wrong with a field under the name that it has here.
func dialect(message string) string {
	for ours, theirs := range map[string]string{
		"names:": "file_path:", "holder:": "agent_name:", "from:": "from_agent:", "event:": "event_type:", "data:": "payload:",
	} {
		if rest, ok := strings.CutPrefix(message, ours); ok {
			return theirs + rest
		}
	}
	return message
}

// read decodes a body. Fields that are not known are of other versions.
func (c call) read(into any) error {
	if err := json.NewDecoder(c.Body).Decode(into); err != nil {
		return mailroom.Errorf(mailroom.CodeInvalid, "the body is not as it should be: %v", err)
	}
	return nil
}

func health(context.Context, call) (any, error) {
	return map[string]string{"status": "ok"}, nil
}
