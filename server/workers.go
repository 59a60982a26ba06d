package server

import (
	"context"

	"mailroom/auth"
	"mailroom/server/workers"
)

// newWorkers makes the operations of remote workers.
func (s *Server) newWorkers() *workers.Operations {
	return workers.New(workers.Options{
		Leases: s.options.Ledger, Attempts: s.options.Ledger, Bus: s.options.Bus, LocalAgents: s.options.Agents,
		Caller:    func(ctx context.Context) *auth.Token { return requestOf(ctx).who },
		Authorize: s.authorizedContext,
		Hold:      func(ctx context.Context) (func(), error) { return s.streamSlots.acquire(requestOf(ctx).who.Name) },
	})
}

// registerWorkers registers the operations of remote workers.
func (rt router) registerWorkers() {
	w := rt.server.workers
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims", "claim", "Claim due runs for a remote worker"), w.Claim)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/workers/{worker}/renew", "renew-worker", "Extend the lease of a worker, and learn which claims to stop or have been lost"), w.Renew)
	leave := rt.operation(auth.PermissionWork, "POST /v1/workers/{worker}/leave", "leave-worker", "End the lease of a worker; the claims it still holds are lost")
	leave.DefaultStatus = 204
	handle(rt, leave, w.Leave)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/entries", "append", "Commit one step of a claimed run"), w.Append)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/deltas", "write", "Show and store a piece of the message that a claimed run is writing"), w.Write)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/settle", "settle", "End the attempt of a claimed run"), w.Settle)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims/{claim}/steered", "hand-over", "Read the messages steered into a claimed run"), w.HandOver)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/run", "get-claimed-run", "Get a claimed run"), w.Run)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/input", "get-claimed-input", "List the input messages of a claimed run"), w.Input)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/transcript", "get-claimed-transcript", "List the last messages of the transcript before a claimed run's input"), w.Transcript)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/tickets", "get-claimed-tickets", "List the tickets of a claimed run"), w.Tickets)
	handle(rt, rt.operation(auth.PermissionWork, "GET /v1/claims/{claim}/effects", "get-claimed-effects", "List the named effects of a claimed run"), w.Effects)
}
