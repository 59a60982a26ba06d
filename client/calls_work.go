package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"mailroom"
	"mailroom/api"
)

// Calls of a worker are sent once. The worker repeats an unanswered call with the same
// number, which the server recognizes.

// Claim claims due runs, and registers a worker if the request names none. The server
// waits for due runs at most for wait.
func (c *Client) Claim(ctx context.Context, in api.ClaimRequest, wait time.Duration) (api.Claims, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+c.options.timeout)
	defer cancel()
	if wait > 0 {
		in.Wait = wait.String()
	}
	var out api.Claims
	err := c.exchange(ctx, request{method: http.MethodPost, path: "/v1/claims", body: in}, &out)
	return out, err
}

// RenewWorker extends a worker's lease.
func (c *Client) RenewWorker(ctx context.Context, worker string, in api.Renewal) (api.Renewed, error) {
	if in.Held == nil {
		in.Held = []string{}
	}
	return ask[api.Renewed](ctx, c, request{method: http.MethodPost, path: path("v1", "workers", worker, "renew"), body: in})
}

// LeaveWorker ends a worker's lease.
func (c *Client) LeaveWorker(ctx context.Context, worker string) error {
	return c.call(ctx, request{method: http.MethodPost, path: path("v1", "workers", worker, "leave")}, nil)
}

// callClaim posts to a resource of a claim.
func callClaim[T any](ctx context.Context, c *Client, claim mailroom.Claim, what string, in any) (T, error) {
	return ask[T](ctx, c, request{method: http.MethodPost, path: path("v1", "claims", api.ClaimID(claim), what), body: in})
}

// Append commits a step of a claimed run.
func (c *Client) Append(ctx context.Context, claim mailroom.Claim, in api.StepCommit) (api.Appended, error) {
	return callClaim[api.Appended](ctx, c, claim, "entries", in)
}

// Write streams a chunk of the message that a claimed run is writing. The server stores
// it unless it is live.
func (c *Client) Write(ctx context.Context, claim mailroom.Claim, in api.Text) (api.TextTaken, error) {
	return callClaim[api.TextTaken](ctx, c, claim, "deltas", in)
}

// Settle ends an attempt.
func (c *Client) Settle(ctx context.Context, claim mailroom.Claim, in api.Settle) (api.Run, error) {
	return callClaim[api.Run](ctx, c, claim, "settle", in)
}

// HandOver returns the messages that were steered into a claimed run and marks them as
// read.
func (c *Client) HandOver(ctx context.Context, claim mailroom.Claim, after int64) (api.HandedOver, error) {
	return callClaim[api.HandedOver](ctx, c, claim, "steered", api.HandOver{After: after})
}

// ClaimedRun returns the current state of a claimed run.
func (c *Client) ClaimedRun(ctx context.Context, claim mailroom.Claim) (api.ClaimedRun, error) {
	return get[api.ClaimedRun](ctx, c, path("v1", "claims", api.ClaimID(claim), "run"), nil)
}

// ClaimedTranscript returns the messages that the agent read before the input of a
// claimed run: the last ones, at most limit.
func (c *Client) ClaimedTranscript(ctx context.Context, claim mailroom.Claim, limit int) ([]mailroom.Message, error) {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	page, err := get[api.Page[mailroom.Message]](ctx, c, path("v1", "claims", api.ClaimID(claim), "transcript"), v)
	return page.Items, err
}

// ClaimedInput returns the input of a claimed run.
func (c *Client) ClaimedInput(ctx context.Context, claim mailroom.Claim) ([]mailroom.Message, error) {
	page, err := get[api.Page[mailroom.Message]](ctx, c, path("v1", "claims", api.ClaimID(claim), "input"), nil)
	return page.Items, err
}

// ClaimedTickets returns the tickets of a claimed run.
func (c *Client) ClaimedTickets(ctx context.Context, claim mailroom.Claim) ([]api.Ticket, error) {
	page, err := get[api.Page[api.Ticket]](ctx, c, path("v1", "claims", api.ClaimID(claim), "tickets"), nil)
	return page.Items, err
}

// ClaimedEffects returns the recorded state of a claimed run's named effects.
func (c *Client) ClaimedEffects(ctx context.Context, claim mailroom.Claim) ([]api.Effect, error) {
	page, err := get[api.Page[api.Effect]](ctx, c, path("v1", "claims", api.ClaimID(claim), "effects"), nil)
	return page.Items, err
}

// CloseIdle closes idle connections: after an unanswered call they may be dead too.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }
