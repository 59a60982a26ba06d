package server

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/operate"
	"mailroom/server/workers"
)

// The routes of each group of handlers: permission, method and path, operation id, summary and
// handler. The status is 200, or 204 if the handler returns *empty, unless the route sets another.
// [router.protocols] and [router.pages] register the routes of Options.

func (rt router) health(h *healthHandlers) {
	for _, probe := range []struct {
		route, id, summary string
		handler            func(context.Context, *empty) (*body[api.Health], error)
	}{
		{"GET /healthz", "health", "Check that the server responds", h.alive},
		{"GET /readyz", "ready", "Check that the server accepts and runs work", h.ready},
	} {
		op := rt.operation(accessPublic, probe.route, probe.id, probe.summary)
		op.Security = []map[string][]string{}
		handle(rt, op, probe.handler)
	}
}

func (rt router) threads(h *threadHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/threads/{thread}", "get-thread", "Get a thread", h.getThread)
	route(rt, auth.PermissionSubmit, "PATCH /v1/threads/{thread}", "patch-thread",
		"Change a thread's agent, metadata or delivery", h.patchThread)
	route(rt, auth.PermissionSubmit, "DELETE /v1/threads/{thread}", "delete-thread",
		"Delete an idle thread with all its data", h.deleteThread)
	route(rt, auth.PermissionRead, "GET /v1/threads/{thread}/entries", "list-entries",
		"List entries of a thread's log, in order of seq", h.listEntries)
	route(rt, auth.PermissionSubmit, "POST /v1/threads/{thread}/interrupt", "interrupt-thread",
		"Supersede queued runs and stop the running one", h.interrupt)
}

func (rt router) messages(h *messageHandlers) {
	handle(rt,
		withStatus(http.StatusAccepted, rt.operation(auth.PermissionSubmit, "POST /v1/messages", "submit",
			"Submit a message to the thread named in the body, or to a new one")), h.submit)
	handle(rt,
		withStatus(http.StatusAccepted, rt.operation(auth.PermissionSubmit, "POST /v1/threads/{thread}/messages",
			"submit-to-thread", "Submit a message to a thread")), h.submitTo)
	route(rt, auth.PermissionRead, "GET /v1/threads/{thread}/messages", "list-messages",
		"List the transcript in reading order, the last page first", h.listMessages)
	route(rt, auth.PermissionRead, "GET /v1/threads/{thread}/messages/{message}", "get-message",
		"Get a message with its current state", h.getMessage)
	route(rt, auth.PermissionSubmit, "PATCH /v1/threads/{thread}/messages/{message}", "edit-message",
		"Replace the content of an unread message", h.editMessage)
	route(rt, auth.PermissionSubmit, "DELETE /v1/threads/{thread}/messages/{message}", "retract-message",
		"Retract an unread message", h.retractMessage)
}

func (rt router) runs(h *runHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/runs/{run}", "get-run", "Get a run", h.getRun)
	route(rt, auth.PermissionRead, "GET /v1/runs/{run}/wait", "wait-run",
		"Wait until a run finishes or waits, up to a timeout", h.waitRun)
	cancel := rt.operation(auth.PermissionSubmit, "POST /v1/runs/{run}/cancel", "cancel-run",
		"Cancel a run, or ask it to stop (202) if it is running")
	cancel.Responses["202"] = rt.jsonResponse(reflect.TypeFor[api.Run](), "The run was asked to stop.")
	handle(rt, cancel, h.cancelRun)
	route(rt, auth.PermissionSubmit, "POST /v1/runs/{run}/retry", "retry-run", "Retry a failed or cancelled run",
		h.retryRun)
}

func (rt router) tickets(h *ticketHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/tickets/{ticket}", "get-ticket", "Get a ticket", h.getTicket)
	route(rt, auth.PermissionDecide, "POST /v1/tickets/{ticket}", "decide", "Approve, deny or answer a ticket, once",
		h.decide)
}

func (rt router) agents(h *agentHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/agents", "list-agents", "List agents, by name", h.listAgents)
	route(rt, auth.PermissionAdmin, "POST /v1/agents/{agent}/pause", "pause-agent",
		"Start no run of an agent until it is resumed; submits are accepted and running runs go on", h.pauseAgent)
	route(rt, auth.PermissionAdmin, "POST /v1/agents/{agent}/resume", "resume-agent",
		"Start the due runs of a paused agent", h.resumeAgent)
	route(rt, auth.PermissionRead, "GET /v1/workers", "list-workers",
		"List the token's workers with a live lease, by id; an admin sees all", h.listWorkers)
}

func (rt router) budgets(h *budgetHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/budgets", "list-budgets", "List the budgets of days and months", h.list)
	route(rt, auth.PermissionAdmin, "POST /v1/budgets/raise", "raise-budget",
		"Add to the budget of an agent or a token until its day or month ends", h.raise)
}

func (rt router) lists(h *operate.ListHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/threads", "list-threads", "List threads, newest first", h.Threads)
	route(rt, auth.PermissionRead, "GET /v1/runs", "list-runs", "List runs, newest first", h.Runs)
	route(rt, auth.PermissionRead, "GET /v1/tickets", "list-tickets", "List tickets, newest first", h.Tickets)
	route(rt, auth.PermissionRead, "GET /v1/runs/count", "count-runs", "Count the runs that a filter matches", h.CountRuns)
	route(rt, auth.PermissionRead, "GET /v1/failures", "list-failures",
		"Sum up failed runs by error group, the latest failure first", h.Failures)
	route(rt, auth.PermissionRead, "GET /v1/report", "report",
		"Report what agents did, asked and spent in a period", h.Report)
	route(rt, auth.PermissionRead, "GET /v1/waits", "list-waits", "Say why queued runs do not run, by cause", h.Waits)
}

func (rt router) bulk(h *operate.BulkHandlers) {
	route(rt, auth.PermissionSubmit, "POST /v1/runs/cancel", "cancel-runs", "Cancel the open runs that a filter matches",
		h.CancelRuns)
	route(rt, auth.PermissionSubmit, "POST /v1/runs/retry", "retry-runs",
		"Retry the failed and cancelled runs that a filter matches", h.RetryRuns)
}

func (rt router) search(h *operate.SearchHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/search", "search", "Find messages by their words, the newest first", h.Search)
}

// stats registers the statistics. The metrics are a plain handler, because their format is not JSON.
func (rt router) stats(h *operate.StatsHandlers, metrics http.Handler) {
	route(rt, auth.PermissionRead, "GET /v1/stats", "stats", "Count threads and runs", h.Stats)
	route(rt, auth.PermissionMeasure, "GET /v1/stats/series", "series", "Sum up ended runs by minute, hour or day",
		h.Series)
	route(rt, auth.PermissionMeasure, "GET /v1/stats/sums", "sums", "Sum up ended runs by agent", h.Sums)
	op := rt.operation(auth.PermissionMeasure, "GET /metrics", "metrics", "Get metrics in the Prometheus text format")
	text := &huma.Schema{Type: huma.TypeString}
	op.Responses["200"] = &huma.Response{Description: "OK",
		Content: map[string]*huma.MediaType{"text/plain": {Schema: text}}}
	rt.describe(&op)
	rt.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		err := checkQuery(r.URL.Query(), nil)
		if err == nil {
			err = h.Measure(r.Context())
		}
		if err != nil {
			refuse(w.(*response), r, err) // ServeHTTP makes no other
			return
		}
		metrics.ServeHTTP(w, r)
	})
}

func (rt router) channels(h *channelHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/channels", "list-channels",
		"List channels, by name; details need the scope metrics or admin", h.listChannels)
	route(rt, auth.PermissionAdmin, "POST /v1/channels/{name}/resume", "resume-channel",
		"Reconnect a channel now and reset its failures", h.resumeChannel)
}

func (rt router) issues(h *issueHandlers) {
	route(rt, auth.PermissionAdmin, "GET /v1/issues", "list-issues", "Show the issues of the server's tracker", h.issues)
}

func (rt router) alerts(h *operate.AlertHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/alerts", "list-alerts",
		"Show the targets of alerts that the token may use, and its rules; an admin sees the operator's", h.List)
	route(rt, auth.PermissionSubmit, "POST /v1/alerts/rules", "put-rule",
		"Make a rule, or replace the one of its name: an admin's is about all threads, that of another token about its own",
		h.PutRule)
	route(rt, auth.PermissionSubmit, "DELETE /v1/alerts/rules/{rule}", "delete-rule", "Remove a rule that was made here",
		h.DeleteRule)
	route(rt, auth.PermissionAdmin, "POST /v1/alerts/test", "test-alert",
		"Make a target send a test message; the run that is returned sends it", h.Test)
}

func (rt router) audit(h *operate.AuditHandlers) {
	route(rt, auth.PermissionAdmin, "GET /v1/audit", "list-audit",
		"List what operators did, the newest action first", h.List)
}

// push registers how browsers subscribe to alerts.
func (rt router) push(h *operate.PushHandlers) {
	route(rt, auth.PermissionAdmin, "GET /v1/push", "show-push",
		"Show the key that browsers subscribe to for alerts, and the browsers that did", h.Show)
	handle(rt,
		withStatus(http.StatusCreated, rt.operation(auth.PermissionAdmin, "POST /v1/push/subscriptions", "subscribe-push",
			"Subscribe a browser to alerts; the same endpoint again replaces its subscription")), h.Subscribe)
	route(rt, auth.PermissionAdmin, "DELETE /v1/push/subscriptions/{subscription}", "unsubscribe-push",
		"End the subscription of a browser; alerts that wait for it are not sent", h.Unsubscribe)
}

// questions registers what the links in alerts do. A link is a secret of its own.
func (rt router) questions(h *questionHandlers) {
	show := rt.operation(accessPublic, "POST /v1/question", "show-question",
		"Show the ticket of a link in an alert; this decides nothing")
	show.Security = []map[string][]string{}
	handle(rt, show, h.question)
	decide := rt.operation(accessPublic, "POST /v1/question/decision", "decide-question",
		"Approve, deny or answer the ticket of a link in an alert, once")
	decide.Security = []map[string][]string{}
	handle(rt, decide, h.decide)
}

func (rt router) pairings(h *pairingHandlers) {
	route(rt, auth.PermissionAdmin, "GET /v1/pairings", "list-pairings",
		"List the approved users of chat channels, and pending pairing requests", h.listPairings)
	route(rt, auth.PermissionAdmin, "POST /v1/pairings", "approve-pairing", "Approve a pairing code", h.approvePairing)
	route(rt, auth.PermissionAdmin, "DELETE /v1/pairings/{channel}/{user}", "revoke-pairing",
		"Revoke a user's access, or refuse a pending request", h.revokePairing)
}

func (rt router) projects(h *projectHandlers) {
	reserve := rt.operation(auth.PermissionSubmit, "POST /v1/reservations", "reserve",
		"Reserve names in a project, all or none")
	reserve.DefaultStatus = http.StatusCreated
	reserve.Description += " A name that another agent holds is a conflict; its field held has the holder and the expiry."
	handle(rt, reserve, h.reserve)
	route(rt, auth.PermissionRead, "GET /v1/reservations", "list-reservations",
		"List current reservations, by project and fence", h.listReservations)
	route(rt, auth.PermissionSubmit, "POST /v1/reservations/{reservation}/renew", "renew-reservation",
		"Extend a reservation that has not ended", h.renewReservation)
	route(rt, auth.PermissionSubmit, "DELETE /v1/reservations/{reservation}", "release", "End a reservation", h.release)
	route(rt, auth.PermissionSubmit, "POST /v1/reservations/release", "release-names",
		"End an agent's reservations of these names", h.releaseNames)

	handle(rt,
		withStatus(http.StatusCreated, rt.operation(auth.PermissionSubmit, "POST /v1/notifications", "notify",
			"Send a notification to agents of a project")), h.notify)
	route(rt, auth.PermissionRead, "GET /v1/notifications", "list-notifications",
		"List the unread notifications of an agent, oldest first", h.listNotifications)
	route(rt, auth.PermissionSubmit, "POST /v1/notifications/take", "take-notifications",
		"Read the unread notifications of an agent and mark them read", h.takeNotifications)
	route(rt, auth.PermissionSubmit, "POST /v1/notifications/acknowledge", "acknowledge", "Mark notifications as read",
		h.acknowledge)
}

func (rt router) schedules(h *scheduleHandlers) {
	route(rt, auth.PermissionRead, "GET /v1/schedules", "list-schedules", "List schedules, by owner and name", h.list)
	route(rt, auth.PermissionRead, "GET /v1/schedules/{name}", "get-schedule",
		"Show a schedule, its next times and what became of its last messages", h.get)
	route(rt, auth.PermissionSubmit, "POST /v1/schedules", "put-schedule",
		"Make a schedule, which sends a message at its times, or change it", h.put)
	route(rt, auth.PermissionSubmit, "POST /v1/schedules/{name}/pause", "pause-schedule", "Pause a schedule", h.pause)
	route(rt, auth.PermissionSubmit, "POST /v1/schedules/{name}/resume", "resume-schedule",
		"End the pause of a schedule; what was due in between is skipped", h.resume)
	route(rt, auth.PermissionSubmit, "POST /v1/schedules/{name}/run", "run-schedule",
		"Send the message of a schedule now, also while it is paused", h.trigger)
	route(rt, auth.PermissionSubmit, "DELETE /v1/schedules/{name}", "delete-schedule",
		"Delete a schedule with its log; the runs that it sent go on", h.remove)
}

func (rt router) tokens(h *tokenHandlers) {
	handle(rt,
		withStatus(http.StatusCreated, rt.operation(auth.PermissionAdmin, "POST /v1/tokens", "create-token",
			"Create a token; its secret is shown only once")), h.createToken)
	route(rt, accessAnyToken, "GET /v1/tokens", "list-tokens",
		"List tokens, by name, without their secrets: an admin's list has all, "+
			"that of another token its own sessions, links and limited tokens", h.listTokens)
	route(rt, auth.PermissionAdmin, "PATCH /v1/tokens/{name}", "set-quotas", "Set the quotas of a token", h.setQuotas)
	route(rt, accessAnyToken, "DELETE /v1/tokens/{name}", "revoke-token",
		"Revoke a token, and all that was made with it: an admin any, "+
			"another token its own sessions, links and limited tokens", h.revokeToken)
	route(rt, accessAnyToken, "POST /v1/tokens/{name}/revoke", "end-token",
		"Revoke a token as revoke-token does, and cancel the open runs of its threads or say how many go on",
		h.revokeAndCancel)
}

// sessions registers how browsers sign in, and tokens that act for others.
func (rt router) sessions(h *sessionHandlers) {
	handle(rt,
		withStatus(http.StatusCreated, rt.operation(accessAnyToken, "POST /v1/links", "create-link",
			"Make a link to sign in with a browser, valid once and for 5 minutes")), h.createLink)
	handle(rt,
		withStatus(http.StatusCreated, rt.operation(accessAnyToken, "POST /v1/tokens/limited", "create-limited-token",
			"Create a token with a part of the caller's rights; its secret is shown only once")), h.createLimited)
	show := rt.operation(accessPublic, "POST /v1/links/show", "show-link",
		"Show whose session a link makes; this spends nothing")
	show.Security = []map[string][]string{}
	handle(rt, show, h.showLink)
	signIn := rt.operation(accessPublic, "POST /v1/session", "sign-in",
		"Exchange a link for a session, with one half of its secret in a cookie of the browser")
	signIn.Security = []map[string][]string{}
	handle(rt, withStatus(http.StatusCreated, signIn), h.signIn)
	route(rt, accessAnyToken, "GET /v1/session", "get-session", "Get the rights of the caller", h.showSelf)
	route(rt, accessAnyToken, "DELETE /v1/session", "sign-out", "End the session of the caller", h.signOut)
}

// workers registers the operations of remote workers.
func (rt router) workers(h *workers.Operations) {
	handleLater(rt, rt.operation(auth.PermissionWork, "POST /v1/claims", "claim", "Claim due runs for a remote worker"),
		h.Claim)
	route(rt, auth.PermissionWork, "POST /v1/workers/{worker}/renew", "renew-worker",
		"Extend the lease of a worker, and learn which claims to stop or have been lost. A body without held releases "+
			"nothing; with held, claims of answered rounds that it leaves out are released", h.Renew)
	route(rt, auth.PermissionWork, "POST /v1/workers/{worker}/leave", "leave-worker",
		"End the lease of a worker; the claims it still holds are lost, or with entered, those in it", h.Leave)
	route(rt, auth.PermissionWork, "POST /v1/claims/{claim}/entries", "append", "Commit one step of a claimed run",
		h.Append)
	route(rt, auth.PermissionWork, "POST /v1/claims/{claim}/deltas", "write",
		"Show and store a piece of the message that a claimed run is writing. The channels thinking and tool show what the "+
			"agent thinks, and the arguments of a tool call as a model writes them, to readers of this server; nothing stores them, "+
			"and each has offsets of its own", h.Write)
	route(rt, auth.PermissionWork, "POST /v1/claims/{claim}/settle", "settle", "End the attempt of a claimed run",
		h.Settle)
	route(rt, auth.PermissionWork, "POST /v1/claims/{claim}/steered", "hand-over",
		"Read the messages steered into a claimed run", h.HandOver)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/run", "get-claimed-run", "Get a claimed run", h.Run)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/input", "get-claimed-input",
		"List the input messages of a claimed run", h.Input)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/transcript", "get-claimed-transcript",
		"List the last messages of the transcript before a claimed run's input", h.Transcript)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/log", "get-claimed-log",
		"List the last entries of a claimed run's thread: the messages of all, and what runs of its agent wrote", h.Log)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/tickets", "get-claimed-tickets",
		"List the tickets of a claimed run", h.Tickets)
	route(rt, auth.PermissionWork, "GET /v1/claims/{claim}/effects", "get-claimed-effects",
		"List the named effects of a claimed run", h.Effects)
}

// streams registers the streams. They are plain handlers, because huma does not describe endless
// responses.
func (rt router) streams(h *streamHandlers) {
	rt.describeStream("/v1/threads/{thread}/stream", "stream-thread", "thread", "run")
	rt.mux.HandleFunc("GET /v1/threads/{thread}/stream", h.streamThread)
	rt.describeStream("/v1/runs/{run}/stream", "stream-run", "run")
	rt.mux.HandleFunc("GET /v1/runs/{run}/stream", h.streamRun)
	rt.describeStreamAll()
	rt.mux.HandleFunc("GET /v1/stream", h.streamAll)
}

// socket registers the WebSocket. Each frame becomes an internal request that passes the same
// middleware and handlers.
func (rt router) socket(h *socketHandlers) {
	op := rt.operation(accessPerFrame, "GET /v1/ws", "socket",
		"Open a WebSocket for submits, decisions and any number of streams")
	op.Description += " Frames are JSON objects with op and id. The token comes in the header Authorization, " +
		"or in a first frame auth."
	op.Responses["101"] = &huma.Response{Description: "The WebSocket is open."}
	op.Responses["426"] = &huma.Response{Description: "Not a WebSocket handshake.", Content: rt.problemResponse().Content}
	rt.describe(&op)
	rt.mux.HandleFunc("GET /v1/ws", h.socket)
}

// pages registers the static files, which need no token.
func (rt router) pages(pages map[string]http.Handler) {
	for path, page := range pages {
		if path == "/" {
			path = "/{$}" // without {$} the pattern matches every path
		}
		rt.public("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := checkQuery(r.URL.Query(), nil); err != nil {
				refuse(w.(*response), r, err) // ServeHTTP makes no other
				return
			}
			page.ServeHTTP(w, r)
		})
	}
}

// public registers a handler that needs no token.
func (rt router) public(pattern string, h http.HandlerFunc) {
	rt.mux.require(pattern, accessPublic)
	rt.mux.HandleFunc(pattern, h)
}
