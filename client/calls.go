package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"mailroom"
	"mailroom/api"
)

// Submit sends messages to a thread. Without a Key it generates one, so that it can repeat a submit that got no
// answer. The server recognizes the repeat and returns the first result (disposition duplicate).
func (c *Client) Submit(ctx context.Context, in api.Submit) (api.Submitted, error) {
	if in.Key == "" {
		in.Key = uuid.NewString()
	}
	// The key travels in the body: a header loses surrounding blanks and cannot
	// contain line breaks.
	return repeat[api.Submitted](ctx, c, request{method: http.MethodPost, path: "/v1/messages", body: in})
}

// ListQuery selects a page of a list, newest first. Q is a filter such as
// `status:failed agent:codex`; Limit 0 is the server's default of 50.
type ListQuery struct {
	Q      string
	Cursor string
	Limit  int
}

// Quote quotes a value for a filter.
func Quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`).Replace(value) + `"`
}

func (q ListQuery) values() url.Values {
	v := url.Values{}
	put(v, "q", q.Q)
	put(v, "cursor", q.Cursor)
	putInt(v, "limit", int64(q.Limit))
	return v
}

func put(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

func putTime(v url.Values, name string, at time.Time) {
	if !at.IsZero() {
		v.Set(name, at.Format(time.RFC3339Nano))
	}
}

func putInt(v url.Values, name string, value int64) {
	if value != 0 {
		v.Set(name, strconv.FormatInt(value, 10))
	}
}

// Threads returns a page of threads.
func (c *Client) Threads(ctx context.Context, q ListQuery) (api.Page[api.Thread], error) {
	return get[api.Page[api.Thread]](ctx, c, "/v1/threads", q.values())
}

// Thread returns one thread.
func (c *Client) Thread(ctx context.Context, thread string) (api.Thread, error) {
	return get[api.Thread](ctx, c, path("v1", "threads", thread), nil)
}

// PatchThread changes a thread and returns it.
func (c *Client) PatchThread(ctx context.Context, thread string, p api.ThreadPatch) (api.Thread, error) {
	return ask[api.Thread](ctx, c, request{method: http.MethodPatch, path: path("v1", "threads", thread), body: p})
}

// DeleteThread deletes an idle thread with all that belongs to it.
func (c *Client) DeleteThread(ctx context.Context, thread string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("v1", "threads", thread)}, nil)
}

// EntriesQuery selects entries of a log, in order of seq: the entries after After, or, if only Before is set, the
// last entries before Before. Limit 0 is 100.
type EntriesQuery struct {
	After, Before int64 // exclusive
	Limit         int
	Kinds         []string
	Run           string
}

// Entries returns a page of a thread's log. Its Next is the After of the next page,
// or the Before if only Before was set.
func (c *Client) Entries(ctx context.Context, thread string, q EntriesQuery) (api.Page[mailroom.Entry], error) {
	v := url.Values{}
	putInt(v, "after", q.After)
	putInt(v, "before", q.Before)
	putInt(v, "limit", int64(q.Limit))
	put(v, "run", q.Run)
	for _, k := range q.Kinds {
		v.Add("kind", k)
	}
	return get[api.Page[mailroom.Entry]](ctx, c, path("v1", "threads", thread, "entries"), v)
}

// MessagesQuery selects a page of a transcript, from its end. Before is the Next of
// the page of newer messages.
type MessagesQuery struct {
	Before     string
	Limit      int
	Visibility string // visibility of the messages; "": any
	All        bool   // superseded, retracted and unread messages too
}

// Messages returns a page of the transcript, in the order in which the agent read it.
// Its Next is the Before of the page of older messages.
func (c *Client) Messages(ctx context.Context, thread string, q MessagesQuery) (api.Page[mailroom.Message], error) {
	v := url.Values{}
	put(v, "before", q.Before)
	put(v, "visibility", q.Visibility)
	putInt(v, "limit", int64(q.Limit))
	if q.All {
		v.Set("all", "true")
	}
	return get[api.Page[mailroom.Message]](ctx, c, path("v1", "threads", thread, "messages"), v)
}

// Message returns one message with its current state.
func (c *Client) Message(ctx context.Context, thread, message string) (mailroom.Message, error) {
	return get[mailroom.Message](ctx, c, path("v1", "threads", thread, "messages", message), nil)
}

// EditMessage replaces the content of an unread message.
func (c *Client) EditMessage(ctx context.Context, thread, message string, e api.Edit) (mailroom.Message, error) {
	return ask[mailroom.Message](ctx, c, request{method: http.MethodPatch,
		path: path("v1", "threads", thread, "messages", message), body: e})
}

// RetractMessage retracts an unread message.
func (c *Client) RetractMessage(ctx context.Context, thread, message string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: path("v1", "threads", thread, "messages", message)}, nil)
}

// Interrupt stops the current run of a thread and cancels its queued runs.
func (c *Client) Interrupt(ctx context.Context, thread string) (api.Interrupted, error) {
	return ask[api.Interrupted](ctx, c, request{method: http.MethodPost, path: path("v1", "threads", thread, "interrupt")})
}

// Runs returns a page of runs.
func (c *Client) Runs(ctx context.Context, q ListQuery) (api.Page[api.Run], error) {
	return get[api.Page[api.Run]](ctx, c, "/v1/runs", q.values())
}

// Run returns one run.
func (c *Client) Run(ctx context.Context, run string) (api.Run, error) {
	return get[api.Run](ctx, c, path("v1", "runs", run), nil)
}

// CancelRun cancels a run, or asks it to stop if it is running (Stopping).
func (c *Client) CancelRun(ctx context.Context, run string) (api.Run, error) {
	return ask[api.Run](ctx, c, request{method: http.MethodPost, path: path("v1", "runs", run, "cancel")})
}

// RetryRun queues a failed or cancelled run again.
func (c *Client) RetryRun(ctx context.Context, run string, r api.Retry) (api.Run, error) {
	return ask[api.Run](ctx, c, request{method: http.MethodPost, path: path("v1", "runs", run, "retry"), body: r})
}

// waitChunk bounds one request of WaitRun, because proxies close connections that are idle for a minute.
const waitChunk = 30 * time.Second

// WaitRun returns the run once it is completed, failed, cancelled or waiting, or in its current state after timeout.
// A timeout of 0 waits until ctx ends. WaitRun goes on after lost connections and restarts of the server.
func (c *Client) WaitRun(ctx context.Context, run string, timeout time.Duration) (api.Run, error) {
	end := time.Now().Add(timeout)
	re := c.newReconnect()
	for {
		chunk := waitChunk
		if timeout > 0 {
			chunk = max(0, min(chunk, time.Until(end)))
		}
		out, err := c.waitOnce(ctx, run, chunk)
		switch {
		case err == nil && (out.Settled() || timeout > 0 && !time.Now().Before(end)):
			return out, nil
		case err == nil:
			re.progress()
		default:
			if err := re.pause(ctx, err); err != nil {
				return api.Run{}, err
			}
		}
	}
}

func (c *Client) waitOnce(ctx context.Context, run string, chunk time.Duration) (api.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, chunk+c.options.timeout)
	defer cancel()
	v := url.Values{"timeout": {fmt.Sprintf("%dms", chunk.Milliseconds())}}
	var out api.Run
	err := c.exchange(ctx, request{method: http.MethodGet, path: path("v1", "runs", run, "wait"), query: v}, &out)
	return out, err
}

// Health reports whether the server answers.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	return get[api.Health](ctx, c, "/healthz", nil)
}

// Ready reports whether the server accepts and runs work. If it does not, the error
// has the code CodeUnavailable and gives the reason.
func (c *Client) Ready(ctx context.Context) (api.Health, error) {
	return get[api.Health](ctx, c, "/readyz", nil)
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return ask[T](ctx, c, request{method: http.MethodGet, path: path, query: query})
}

func ask[T any](ctx context.Context, c *Client, q request) (T, error) {
	var out T
	err := c.call(ctx, q, &out)
	return out, err
}
