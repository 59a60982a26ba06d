package storetest_test

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// There are few values, so that rows share them: the same ids, agents, times.

func id(prefix string, n int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return prefix + string(rune('1'+rapid.IntRange(0, n-1).Draw(t, prefix)))
	})
}

func ids(prefix string, n int) *rapid.Generator[[]string] {
	return rapid.SliceOfNDistinct(id(prefix, n), 0, n, rapid.ID[string])
}

func moment() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		n := rapid.IntRange(-1, 4).Draw(t, "moment")
		if n < 0 {
			return time.Time{}
		}
		return time.Date(2026, 1, 2, 3, 4, n, 5000, time.UTC)
	})
}

func word() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "plain", "<q>\"\\\n", "ünïcödé 日本"})
}

func raw() *rapid.Generator[json.RawMessage] {
	return rapid.Map(rapid.SampledFrom([]string{"", `{"a": 1}`, `{ "t":"<\"ü\\u2028>" }`, `[]`}),
		func(s string) json.RawMessage {
			if s == "" {
				return nil
			}
			return json.RawMessage(s)
		})
}

func drawThread(t *rapid.T, id string) mailroom.Thread {
	row := mailroom.Thread{
		ID: id, Agent: agent().Draw(t, "agent"), Owner: word().Draw(t, "owner"), Parent: word().Draw(t, "parent"),
		Metadata: raw().Draw(t, "metadata"), Current: rapid.SampledFrom([]string{"", "r1", "r2", "plain"}).Draw(t, "current"),
		Worker: rapid.SampledFrom([]string{"", "w1", "w2"}).Draw(t, "worker"),
		Round:  rapid.Int64Range(0, 3).Draw(t, "round"), HeldAt: moment().Draw(t, "held"),
		Revision: rapid.Int64Range(0, 3).Draw(t, "revision"), FirstSeq: 1, NextPlace: rapid.Int64Range(1, 9).Draw(t, "place"),
		CreatedAt: moment().Draw(t, "created"), UpdatedAt: moment().Draw(t, "updated"),
		DeliverTo: word().Draw(t, "deliver to"), State: rapid.MapOfN(agent(), raw(), 0, 2).Draw(t, "state"),
		Inboxes: rapid.Int64Range(0, 3).Draw(t, "inboxes"), Lapsed: rapid.Int64Range(0, 3).Draw(t, "lapsed"),
		Unread: rapid.MapOfN(word(), rapid.Int64Range(-1, 1<<40), 0, 2).Draw(t, "unread"),
		Nodes:  rapid.MapOfN(agent(), word(), 0, 2).Draw(t, "nodes"),
	}
	if rapid.IntRange(0, 4).Draw(t, "gone") == 4 {
		row.DeletedAt = moment().Draw(t, "deleted")
	}
	if at := moment().Draw(t, "due"); !at.IsZero() {
		row.Due = mailroom.Due{
			At: at, Agent: agent().Draw(t, "due agent"), Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
			LastAttempt: rapid.Bool().Draw(t, "alone"),
		}
		if row.Worker != "" { // due for the ledger, which ends the claim
			row.Due = mailroom.Due{At: at}
		}
	}
	return row
}

func agent() *rapid.Generator[string] { return rapid.SampledFrom([]string{"a", "a b", "b"}) }

func status() *rapid.Generator[mailroom.Status] {
	return rapid.SampledFrom([]mailroom.Status{mailroom.StatusQueued, mailroom.StatusQueued, mailroom.StatusQueued,
		mailroom.StatusRunning,
		mailroom.StatusWaiting, mailroom.StatusCompleted, mailroom.StatusFailed, mailroom.StatusCancelled})
}

func drawRun(t *rapid.T, id, thread string, place int64) mailroom.Run {
	n := rapid.IntRange(0, 3)
	r := mailroom.Run{
		ID: id, Thread: thread, Agent: agent().Draw(t, "agent"), AgentVersion: word().Draw(t, "version"),
		Mode: mailroom.ModeQueue, Priority: n.Draw(t, "priority"), Place: place,
		SubmitKey: rapid.SampledFrom([]string{"", "k1", "k2", "plain"}).Draw(t, "key"), Parent: word().Draw(t, "parent"),
		Origin: mailroom.Origin{Via: word().Draw(t, "via"), Sender: word().Draw(t, "sender"),
			RequestID: word().Draw(t, "request")},
		Options: raw().Draw(t, "options"), MaxAttempts: n.Draw(t, "max"), NoRetry: rapid.Bool().Draw(t, "once"),
		FirstSeq: int64(n.Draw(t, "seq")),
		Status:   status().Draw(t, "status"), Scheduled: rapid.Bool().Draw(t, "held"),
		NotBefore: moment().Draw(t, "not before"), AvailableAt: moment().Draw(t, "available"),
		Attempt: n.Draw(t, "attempt"), Failures: n.Draw(t, "failures"), Crashes: n.Draw(t, "crashes"),
		Lost: n.Draw(t, "lost"), Outages: n.Draw(t, "outages"), OutageSince: moment().Draw(t, "outage"),
		Step: n.Draw(t, "step"), Started: rapid.Bool().Draw(t, "started"), Flushed: rapid.Bool().Draw(t, "flushed"),
		Checkpoint: raw().Draw(t, "checkpoint"),
		ClaimEnds:  moment().Draw(t, "claim ends"), StopGrace: time.Duration(n.Draw(t, "grace")) * time.Second,
		InputBytes: int64(n.Draw(t, "input bytes")), InputText: word().Draw(t, "input text"),
		LastStep:  mailroom.StepMark{Attempt: n.Draw(t, "mark"), Digest: word().Draw(t, "digest")},
		Reason:    mailroom.Reason(word().Draw(t, "reason")),
		CreatedAt: moment().Draw(t, "created"), StartedAt: moment().Draw(t, "start"), FinishedAt: moment().Draw(t, "end"),
	}
	drawWaits(t, &r)
	for i := range n.Draw(t, "inputs") {
		r.Inputs = append(r.Inputs, mailroom.Input{Message: word().Draw(t, "message"), Seq: int64(i), Retracted: i == 1})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "steers") {
		s := mailroom.Steer{Input: mailroom.Input{Message: word().Draw(t, "steer"), Seq: int64(i)}, Read: i == 1}
		if rapid.Bool().Draw(t, "own") {
			s.Own = &mailroom.Run{ID: "own", Options: raw().Draw(t, "own options"), CreatedAt: moment().Draw(t, "own time")}
		}
		r.Steers = append(r.Steers, s)
	}
	if r.Status == mailroom.StatusFailed || rapid.IntRange(0, 4).Draw(t, "grouped") == 4 {
		r.ErrorGroup = rapid.SampledFrom([]string{"", "g1", "g2"}).Draw(t, "group")
	}
	if rapid.Bool().Draw(t, "ended") {
		reply := word().Draw(t, "reply")
		r.Reply = &reply
		r.Error = &mailroom.RunError{Class: mailroom.ClassTransient, Message: word().Draw(t, "error")}
		r.Metadata = map[string]string{"k": word().Draw(t, "value")}
	}
	return r
}

// drawWaits sets fields that most runs do not have.
func drawWaits(t *rapid.T, r *mailroom.Run) {
	if rapid.Bool().Draw(t, "plain") {
		return
	}
	r.Joins = rapid.Bool().Draw(t, "joins")
	r.JoinUntil, r.JoinSince = moment().Draw(t, "join until"), moment().Draw(t, "join since")
	if r.Status == mailroom.StatusRunning {
		r.ClaimSpare = time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "spare"))
		if r.WaitsOn = word().Draw(t, "waits on"); r.WaitsOn != "" {
			r.WaitsSince = moment().Draw(t, "waits since")
		}
	}
	r.AgentAttempts = rapid.Bool().Draw(t, "attempts of the agent")
	r.RetryFirst = time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "first delay"))
	r.RetryMost = time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "longest delay"))
	r.RetryFactor = float64(rapid.IntRange(0, 20).Draw(t, "factor")) / 2
	r.RetryOutageMost = time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "longest delay in an outage"))
	r.RetryOutage = time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "time of an outage"))
	r.SubmitRetry = rapid.SampledFrom([]string{"", "first=10s,factor=2"}).Draw(t, "retries of the submit")
	r.Resumes, r.Asked = rapid.Bool().Draw(t, "resumes"), rapid.IntRange(0, 3).Draw(t, "asked")
	r.Lineage = rapid.SliceOfN(word(), 0, 2).Draw(t, "lineage")
	if rapid.Bool().Draw(t, "joined") {
		r.Joined = map[string]string{word().Draw(t, "send"): word().Draw(t, "thread")}
	}
	if rapid.Bool().Draw(t, "bounded") {
		most := mailroom.Budget{Amounts: mailroom.Amounts{MicroUSD: rapid.Int64Range(0, 1<<40).Draw(t, "money"), Turns: 7}}
		r.Turns = rapid.Int64Range(0, 9).Draw(t, "turns")
		r.Budget = &mailroom.RunBudget{Limit: most, Grant: most, Lent: mailroom.Amounts{Tokens: 5}, Low: true,
			Lender: word().Draw(t, "lender"), Part: most.Amounts}
		r.Budget.Limit.Until = moment().Draw(t, "until")
	}
	r.Progress = float64(rapid.IntRange(0, 8).Draw(t, "progress")) / 8
	r.Usage = mailroom.Usage{
		InputTokens: rapid.Int64Range(0, 1<<60).Draw(t, "tokens"), CostUSD: rapid.Float64Range(0, 1).Draw(t, "cost"),
	}
	if rapid.Bool().Draw(t, "child") {
		r.Caller = &mailroom.Caller{Thread: word().Draw(t, "caller"), Answer: mailroom.AnswerMode(word().Draw(t, "answer"))}
	}
	if rapid.Bool().Draw(t, "waits") {
		r.Wait = &mailroom.Wait{Any: rapid.Bool().Draw(t, "any"), Names: rapid.SliceOfN(word(), 0, 2).Draw(t, "names")}
	}
}

func ticketState() *rapid.Generator[mailroom.TicketState] {
	return rapid.SampledFrom([]mailroom.TicketState{mailroom.TicketOpen, mailroom.TicketOpen, mailroom.TicketDecided,
		mailroom.TicketExpired, mailroom.TicketVoid})
}

func ticketKind() *rapid.Generator[mailroom.TicketKind] {
	return rapid.SampledFrom([]mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput, mailroom.TicketChildren,
		mailroom.TicketTimer})
}

func drawTicket(t *rapid.T, id, run string) mailroom.Ticket {
	k := mailroom.Ticket{
		ID: id, Run: run, Name: word().Draw(t, "name"), Kind: ticketKind().Draw(t, "kind"),
		Prompt: word().Draw(t, "prompt"), Action: word().Draw(t, "action"), Arguments: raw().Draw(t, "arguments"),
		Digest: word().Draw(t, "digest"), State: ticketState().Draw(t, "state"), Answer: raw().Draw(t, "answer"),
		Decision: mailroom.Verdict(word().Draw(t, "decision")), Reason: word().Draw(t, "reason"),
		DecidedBy: word().Draw(t, "by"), Answers: rapid.Bool().Draw(t, "answers"), Holds: rapid.Bool().Draw(t, "holds"),
	}
	if at := moment().Draw(t, "expires"); !at.IsZero() {
		k.ExpiresAt = &at
	}
	if at := moment().Draw(t, "decided"); !at.IsZero() {
		k.DecidedAt = &at
	}
	return k
}

func definitions() *rapid.Generator[[]store.Definition] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) store.Definition {
		return store.Definition{Agent: agent().Draw(t, "agent"), Version: id("v", 3).Draw(t, "version"),
			Body: raw().Draw(t, "body")}
	}), 0, 2)
}

func drawToken(t *rapid.T, name string) auth.Token {
	return auth.Token{
		Name: name, Sum: word().Draw(t, "sum"), Namespace: word().Draw(t, "namespace"),
		Scopes: rapid.SliceOfN(rapid.SampledFrom(auth.Permissions()), 0, 3).Draw(t, "scopes"),
		Agents: rapid.SliceOfN(word(), 0, 2).Draw(t, "agents"), CreatedAt: moment().Draw(t, "created"),
		Used: auth.Use{Bytes: rapid.Int64Range(0, 9).Draw(t, "bytes"),
			Notifications: rapid.Int64Range(0, 1<<40).Draw(t, "unread")},
		UsedAt: moment().Draw(t, "used"), RevokedAt: moment().Draw(t, "revoked"),
	}
}

func drawHistory(t *rapid.T) history {
	h := history{
		lines: make(map[string]int), now: moment().Draw(t, "now"), queries: drawQueries(t),
		fails: rapid.IntRange(0, 4).Draw(t, "fails") == 4,
	}
	threads := ids("t", 5).Draw(t, "threads")
	h.drawBlobs(t, threads)
	for _, id := range threads {
		h.threads = append(h.threads, drawThread(t, id))
		h.lines[id] = rapid.IntRange(0, 4).Draw(t, "lines")
	}
	if len(threads) > 0 {
		of := rapid.SampledFrom(threads)
		for i, id := range ids("r", 7).Draw(t, "runs") {
			h.runs = append(h.runs, drawRun(t, id, of.Draw(t, "thread"), int64(i)))
		}
		for _, key := range rapid.SliceOfN(id("k", 4), 0, 1).Draw(t, "keys") {
			stopping := word().Draw(t, "stopping")
			h.keys = append(h.keys, store.SubmitKey{
				Thread: of.Draw(t, "thread"), Key: key, Digest: word().Draw(t, "digest"),
				Result: store.Submitted{Message: word().Draw(t, "message"), Disposition: rapid.SampledFrom(
					[]store.Disposition{store.DispositionQueued, store.DispositionSteered, store.DispositionCollected}).Draw(t, "disposition"), Superseded: []string{stopping}, Stopping: &stopping},
			})
		}
		h.pieces = ids("r", 7).Draw(t, "pieces")
		h.repeated = rapid.Bool().Draw(t, "repeated")
		h.drawReservations(t, of)
		for _, name := range ids("q", 5).Draw(t, "tickets") {
			h.tickets = append(h.tickets, drawTicket(t, name, id("r", 7).Draw(t, "run")))
		}
	}
	h.kept, h.again = definitions().Draw(t, "kept"), ids("t", 6).Draw(t, "again")
	for _, name := range ids("n", 4).Draw(t, "used") {
		h.use = append(h.use, store.UseChange{Token: name, Add: auth.Use{Threads: rapid.Int64Range(-3, 3).Draw(t, "threads"), Bytes: 1}})
	}
	for _, name := range ids("n", 3).Draw(t, "tokens") {
		h.tokens = append(h.tokens, drawToken(t, name))
	}
	for _, name := range ids("c", 3).Draw(t, "cursors") {
		h.cursors = append(h.cursors, store.Cursor{
			Channel: name, Identity: word().Draw(t, "identity"), Position: raw().Draw(t, "position"), MovedAt: moment().Draw(t, "moved"),
		})
	}
	for _, id := range ids("w", 3).Draw(t, "workers") {
		h.workers = append(h.workers, &store.Worker{
			ID: id, Owner: word().Draw(t, "owner"), Host: word().Draw(t, "host"), Local: rapid.Bool().Draw(t, "local"), Agents: ids("a", 3).Draw(t, "agents"),
			LeaseUntil: moment().Draw(t, "lease"), Dead: rapid.Bool().Draw(t, "dead"), Node: word().Draw(t, "node"), Duties: ids("d", 3).Draw(t, "duties"), Version: word().Draw(t, "version"),
		})
	}
	if rapid.IntRange(0, 3).Draw(t, "drops") == 3 {
		h.drops = store.Changes{
			DropThreads: ids("t", 5).Draw(t, "drop threads"), DropWorkers: ids("w", 3).Draw(t, "drop workers"),
			DropPartials: ids("r", 7).Draw(t, "drop partials"), DropDefinitions: definitions().Draw(t, "drop kept"),
			DropReservations: ids("v", 3).Draw(t, "drop reservations"),
			DropBlobs:        h.drops.DropBlobs, DropUploads: h.drops.DropUploads,
		}
		for _, name := range ids("c", 3).Draw(t, "drop cursors") {
			h.drops.DropCursors = append(h.drops.DropCursors, store.Cursor{Channel: name, Identity: word().Draw(t, "of")})
		}
	}
	if rapid.Bool().Draw(t, "purges") {
		for _, id := range ids("t", 5).Draw(t, "purge") {
			h.drops.DropEntries = append(h.drops.DropEntries, store.Prefix{Thread: id, Seq: rapid.Int64Range(0, 12).Draw(t, "below")})
		}
	}
	h.due, h.aheadAt = drawWants(t), h.now
	switch rapid.IntRange(0, 3).Draw(t, "ahead") {
	case 1:
		h.ahead = h.due
	case 2:
		h.ahead = drawWants(t)
	case 3:
		h.ahead, h.aheadAt = h.due, moment().Draw(t, "ahead at")
	}
	return h
}

func (h *history) drawReservations(t *rapid.T, of *rapid.Generator[string]) {
	for _, name := range ids("v", 3).Draw(t, "reservations") {
		h.reserved = append(h.reserved, store.Reservation{
			ID: name, Thread: of.Draw(t, "thread"), Name: word().Draw(t, "name"), Holder: word().Draw(t, "holder"), Owner: word().Draw(t, "owner"),
			Shared: rapid.Bool().Draw(t, "shared"), Advisory: rapid.Bool().Draw(t, "advisory"), Reason: word().Draw(t, "reason"),
			Fence: rapid.Int64Range(0, 3).Draw(t, "fence"), TakenAt: moment().Draw(t, "taken"), ExpiresAt: moment().Draw(t, "expires"),
		})
	}
}

// drawBlobs draws blobs and pieces of uploads.
func (h *history) drawBlobs(t *rapid.T, threads []string) {
	if h.drawBlobDrops(t); len(threads) == 0 {
		return
	}
	of := rapid.SampledFrom(threads)
	for _, name := range ids("b", 3).Draw(t, "blobs") {
		h.blobs = append(h.blobs, store.Blob{
			Thread: of.Draw(t, "thread"), Agent: agent().Draw(t, "agent"), Name: name, Upload: word().Draw(t, "upload"),
			Size: 5, Digest: word().Draw(t, "digest"),
			WrittenAt: time.Date(2026, 1, 2, 3, 4, rapid.IntRange(0, 2).Draw(t, "written"), 5000, time.UTC),
		})
	}
	for _, name := range ids("u", 2).Draw(t, "uploads") {
		h.uploads = append(h.uploads, store.UploadRef{Thread: of.Draw(t, "thread"), Upload: name})
	}
}

func (h *history) drawBlobDrops(t *rapid.T) {
	for _, name := range ids("b", 3).Draw(t, "drop blobs") {
		h.drops.DropBlobs = append(h.drops.DropBlobs,
			store.BlobRef{Thread: id("t", 3).Draw(t, "of"), Agent: "a", Name: name})
	}
	for _, name := range ids("u", 2).Draw(t, "drop uploads") {
		h.drops.DropUploads = append(h.drops.DropUploads, store.UploadRef{Thread: id("t", 3).Draw(t, "of"), Upload: name})
	}
}

func drawWants(t *rapid.T) []store.Capacity {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) store.Capacity {
		w := store.Capacity{
			Agent: agent().Draw(t, "agent"), Slots: rapid.IntRange(1, 4).Draw(t, "slots"),
			LastAttempt: rapid.Bool().Draw(t, "alone"),
		}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 2:
			w.Share = &store.Share{Most: rapid.IntRange(1, 2).Draw(t, "most"),
				Held: map[string]int{"ann": rapid.IntRange(0, 2).Draw(t, "held")}}
		case 3:
			w.Agent, w.LastAttempt = "", false // overdue claims
		}
		return w
	}), 0, 3).Draw(t, "wants")
}

// queries has queries of each kind.
type queries struct {
	threads []store.ThreadQuery
	runs    []store.RunQuery
	entries store.EntryQuery
	tickets []store.TicketQuery
	keysOf  string
}

func drawQueries(t *rapid.T) queries {
	limit := rapid.IntRange(0, 4)
	from := rapid.Int64Range(0, 9)
	q := queries{
		threads: []store.ThreadQuery{{
			Worker: rapid.SampledFrom([]string{"", "w1"}).Draw(t, "worker"),
			Agent:  rapid.SampledFrom([]string{"", "a"}).Draw(t, "agent"),
			Owner:  rapid.SampledFrom([]string{"", "plain"}).Draw(t, "owner"),
			From:   from.Draw(t, "from"), Oldest: rapid.Bool().Draw(t, "oldest"), Limit: limit.Draw(t, "limit"),
		}},
		entries: store.EntryQuery{
			Thread: id("t", 6).Draw(t, "log"), After: from.Draw(t, "after"), Before: from.Draw(t, "before"),
			Backward: rapid.Bool().Draw(t, "backward"), Limit: limit.Draw(t, "limit"),
			Run: rapid.SampledFrom([]string{"", "r1"}).Draw(t, "run"),
		},
		keysOf: id("t", 6).Draw(t, "keys"),
	}
	q.threads = append(q.threads, store.ThreadQuery{DeliverTo: "plain", Limit: limit.Draw(t, "delivering")},
		store.ThreadQuery{Deleted: true, Limit: limit.Draw(t, "deleted")},
		store.ThreadQuery{Prefix: rapid.SampledFrom([]string{"t", "t2"}).Draw(t, "prefix"),
			After: id("t", 4).Draw(t, "after id"), Limit: limit.Draw(t, "under")})
	these := q.threads[0]
	these.IDs, these.Limit = ids("t", 6).Draw(t, "ids"), 0
	q.threads = append(q.threads, these)
	if rapid.Bool().Draw(t, "by kind") {
		q.entries.Kinds = []string{entry.KindStep}
	}
	run := store.RunQuery{
		Thread: rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(t, "thread"), Oldest: rapid.Bool().Draw(t, "oldest run"),
		Agent: rapid.SampledFrom([]string{"", "a"}).Draw(t, "agent"), From: from.Draw(t, "from"),
		Parent:   rapid.SampledFrom([]string{"", "plain"}).Draw(t, "parent"),
		Statuses: rapid.SliceOfN(status(), 0, 2).Draw(t, "statuses"), Limit: limit.Draw(t, "limit"),
	}
	if run.Thread == "" && run.Parent == "" { // drawn rows do not keep the rule of RunQuery.Statuses
		run.Statuses = slices.DeleteFunc(run.Statuses, func(s mailroom.Status) bool { return s == mailroom.StatusRunning })
	}
	named := run
	named.IDs, named.Limit = ids("r", 8).Draw(t, "ids"), 0
	q.runs = []store.RunQuery{run, named,
		{Thread: "t1", Set: store.RunsQueued, Limit: run.Limit}, {Thread: "t2", Set: store.RunsScheduled, Limit: run.Limit},
		{Owner: "plain", From: run.From, Oldest: run.Oldest, Limit: run.Limit},
		{Group: rapid.SampledFrom([]string{"g1", "g2"}).Draw(t, "group"), From: run.From, Oldest: run.Oldest, Limit: run.Limit},
		{Prefix: "r", After: id("r", 8).Draw(t, "after run"), Limit: run.Limit}}
	tickets := store.TicketQuery{
		Thread: rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(t, "tickets of"), From: from.Draw(t, "from"),
		States: rapid.SliceOfN(ticketState(), 0, 2).Draw(t, "states"),
		Kinds:  rapid.SliceOfN(ticketKind(), 0, 2).Draw(t, "kinds"),
		Oldest: rapid.Bool().Draw(t, "oldest ticket"), Limit: limit.Draw(t, "limit"),
	}
	theseTickets, ofRuns := tickets, tickets
	theseTickets.IDs, theseTickets.Limit = ids("q", 6).Draw(t, "tickets"), 0
	ofRuns.Runs, ofRuns.Limit = ids("r", 8).Draw(t, "runs"), 0
	q.tickets = []store.TicketQuery{tickets, theseTickets, ofRuns,
		{Prefix: "q", After: id("q", 6).Draw(t, "after ticket"), Limit: tickets.Limit}}
	return q
}

func (q queries) queryAll(r store.Reader, said *answers) error {
	var errs []error
	note := func(v any, err error) { errs = append(errs, said.add(v, err)) }
	for _, tq := range q.threads {
		rows, err := r.Threads(tq)
		note(rows, err)
	}
	for _, rq := range q.runs {
		rows, err := r.Runs(rq)
		note(rows, err)
		if len(rq.IDs) == 0 && rq.Owner == "" && rq.Group == "" && rq.Prefix == "" {
			n, err := r.Count(store.CountQuery{Thread: rq.Thread, Agent: rq.Agent, Statuses: rq.Statuses, Set: rq.Set})
			note(n, err)
		}
	}
	list, err := r.Entries(q.entries)
	note(list, err)
	for _, owner := range []string{"", "plain"} {
		n, err := r.Count(store.CountQuery{Owner: &owner})
		note(n, err)
		n, err = r.Count(store.CountQuery{Owner: &owner, Agent: "a"})
		note(n, err)
	}
	n, err := r.Count(store.CountQuery{})
	note(n, err)
	for _, kq := range q.tickets {
		rows, err := r.Tickets(kq)
		note(rows, err)
	}
	kept, err := r.Agents()
	note(kept, err)
	tokens, err := r.Tokens()
	note(tokens, err)
	for _, channel := range []string{"", "c1"} {
		cursors, err := r.Cursors(store.CursorQuery{Channel: channel})
		note(cursors, err)
	}
	cursors, err := r.Cursors(store.CursorQuery{After: store.CursorRef{Channel: "c1", Identity: "plain"}, Limit: 2})
	note(cursors, err)
	for _, rq := range []store.ReservationQuery{{}, {Thread: "t1"}, {ID: "v1"}, {ID: "v2", Thread: "t1"}} {
		reserved, err := r.Reservations(rq)
		note(reserved, err)
	}
	for _, kq := range []store.KeyQuery{{Keys: []string{"k3", "k1", "k2"}}, {All: true},
		{All: true, After: "k1", Limit: 1}} {
		kq.Thread = q.keysOf
		keys, err := r.Keys(kq)
		note(keys, err)
	}
	for _, bq := range []store.BlobQuery{{}, {Agent: "a", Prefix: "b", Limit: 1},
		{Agent: "a", Names: []string{"b2", "b1"}},
		{After: store.BlobRef{Agent: "a", Name: "b1"}}, {Sizes: true}, {Piece: &store.BlobPiece{Upload: "u1", Number: 1}}} {
		_, err := r.Keys(store.KeyQuery{Thread: q.keysOf, Blobs: &bq})
		note(bq, err)
	}
	for _, runs := range [][]string{{"r1"}, {"r2"}, {"r3"}, {}} {
		pieces, err := r.Partials(runs...)
		note(pieces, err)
	}
	workers, err := r.Workers()
	note(workers, err)
	due, err := r.Threads(store.ThreadQuery{OnePerAgent: true}) // which thread of an agent is unspecified
	for _, row := range due {
		if row.Due.Agent != "" {
			note(row.Due.Agent, nil)
		}
	}
	note(nil, err)
	return errors.Join(errs...)
}
