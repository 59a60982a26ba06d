package sqlite

import (
	"database/sql/driver"

	"mailroom"
)

// The statements and the functions that bind and scan their rows name the
// columns in one order; storetest's round trips notice a slip.

const (
	threadColumns = `t.key, t.id, t.agent, t.owner, t.parent, t.metadata, t.current_run, t.worker, t.round,
		t.due_at, t.due_agent, t.due_priority, t.due_alone, t.held_at,
		t.first_seq, t.last_seq, t.next_place, t.created_at, t.updated_at, t.revision, t.state, t.deliver_to`

	insertThread = `INSERT INTO thread (agent, owner, parent, metadata, current_run, worker, round,
		due_at, due_agent, due_priority, due_alone, held_at,
		first_seq, last_seq, next_place, created_at, updated_at, revision, state, deliver_to, id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// Neither statement that updates sets the id, so that the indexes on it
	// are left alone.
	updateThread = `UPDATE thread SET agent = ?, owner = ?, parent = ?, metadata = ?, current_run = ?,
		worker = ?, round = ?, due_at = ?, due_agent = ?, due_priority = ?, due_alone = ?, held_at = ?,
		first_seq = ?, last_seq = ?, next_place = ?, created_at = ?, updated_at = ?,
		revision = ?, state = ?, deliver_to = ? WHERE id = ? AND key = ?`

	runColumns = `r.key, r.id, t.id, r.agent, r.agent_version, r.mode, r.priority, r.place, r.submit_key,
		r.parent, r.max_attempts, r.first_seq, r.status, r.stop, r.stop_by, r.held, r.not_before,
		r.available_at, r.attempt, r.failures, r.crashes, r.lost, r.outages, r.outage_since,
		r.step, r.started, r.reason, r.created_at, r.started_at, r.finished_at,
		r.origin, r.last_step, r.inputs, r.steers, r.error, r.metadata, r.reply, r.options, r.checkpoint,
		r.caller, r.lineage, r.wait, r.resumes, r.asked, r.usage, r.progress`

	// Plain runs have none of the columns from caller to progress, and a value
	// that is not bound is the cheapest one.
	insertRun = insertRunFields + `id, thread, late_seq)
		VALUES (` + marks + `, ?, ?, ?)`
	insertRunMore = insertRunFields + `caller, lineage, wait, resumes, asked, usage, progress, id, thread, late_seq)
		VALUES (` + marks + `, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertRunFields = `INSERT INTO run (agent, agent_version, mode, priority, place, submit_key,
		parent, max_attempts, first_seq, status, stop, stop_by, held, not_before,
		available_at, attempt, failures, crashes, lost, outages, outage_since,
		step, started, reason, created_at, started_at, finished_at,
		origin, last_step, inputs, steers, error, metadata, reply, options, checkpoint, `
	marks = `?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?`

	updateRun = updateRunFields + `caller = NULL, lineage = NULL, wait = NULL, resumes = NULL, asked = NULL,
		usage = NULL, progress = NULL WHERE id = ? AND key = ?`
	updateRunMore = updateRunFields + `caller = ?, lineage = ?, wait = ?, resumes = ?, asked = ?,
		usage = ?, progress = ? WHERE id = ? AND key = ?`
	updateRunFields = `UPDATE run SET agent = ?, agent_version = ?, mode = ?, priority = ?, place = ?, submit_key = ?,
		parent = ?, max_attempts = ?, first_seq = ?, status = ?, stop = ?, stop_by = ?, held = ?, not_before = ?,
		available_at = ?, attempt = ?, failures = ?, crashes = ?, lost = ?, outages = ?, outage_since = ?,
		step = ?, started = ?, reason = ?, created_at = ?, started_at = ?, finished_at = ?,
		origin = ?, last_step = ?, inputs = ?, steers = ?, error = ?, metadata = ?, reply = ?, options = ?,
		checkpoint = ?, `

	workerColumns = `id, host, pid, local, agents, started_at, lease_until, dead`

	putWorker = `INSERT INTO worker (` + workerColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, local = excluded.local,
		agents = excluded.agents, started_at = excluded.started_at, lease_until = excluded.lease_until,
		dead = excluded.dead`

	nThread, nRun, nWorker = 22, 46, 8
	maxColumns             = nRun
)

// bindThread appends the values of insertThread, or of updateThread but the key.
func bindThread(args []any, t *mailroom.Thread) []any {
	return append(args, t.Agent, t.Owner, t.Parent, orNull(t.Metadata), t.Current, orNull(t.Worker), t.Round,
		micros(t.Due.At), t.Due.Agent, int64(t.Due.Priority), bit(t.Due.Alone), micros(t.HeldAt),
		t.FirstSeq, t.LastSeq, t.NextPlace, micros(t.CreatedAt), micros(t.UpdatedAt), t.Revision,
		encodeState(t.State), orNull(t.DeliverTo), t.ID)
}

func scanThread(row []driver.Value) (*mailroom.Thread, error) {
	c := columns{row: row}
	t := &mailroom.Thread{
		Key: c.int64(), ID: c.text(), Agent: c.text(), Owner: c.text(), Parent: c.text(), Metadata: c.raw(),
		Current: c.text(), Worker: c.text(), Round: c.int64(),
		Due:      mailroom.Due{At: c.time(), Agent: c.text(), Priority: c.int(), Alone: c.bool()},
		HeldAt:   c.time(),
		FirstSeq: c.int64(), LastSeq: c.int64(), NextPlace: c.int64(), CreatedAt: c.time(), UpdatedAt: c.time(),
		Revision: c.int64(),
	}
	t.State = c.state()
	t.DeliverTo = c.text()
	return t, c.err
}

// bindRun appends the values of an insert but the last two, or of an update but
// the key: of insertRun or updateRun, or, unless the run isPlain, of those with More.
func bindRun(args []any, r *mailroom.Run) ([]any, error) {
	steers, err := encodeSteers(r.Steers)
	if err != nil {
		return nil, err
	}
	var metadata, reply any
	if len(r.Metadata) > 0 {
		if metadata, err = encodeJSON(r.Metadata); err != nil {
			return nil, err
		}
	}
	if r.Reply != nil {
		reply = *r.Reply
	}
	args = append(args, r.Agent, r.AgentVersion, string(r.Mode), int64(r.Priority), r.Place, r.SubmitKey,
		r.Parent, int64(r.MaxAttempts), r.FirstSeq, string(r.Status), string(r.Stop), r.StopBy, bit(r.Held),
		micros(r.NotBefore), micros(r.AvailableAt), int64(r.Attempt), int64(r.Failures), int64(r.Crashes),
		int64(r.Lost), int64(r.Outages), micros(r.OutageSince), int64(r.Step), bit(r.Started), string(r.Reason),
		micros(r.CreatedAt), micros(r.StartedAt), micros(r.FinishedAt),
		encodeOrigin(r.Origin), encodeMark(r.LastStep), encodeInputs(r.Inputs), steers, encodeError(r.Error),
		metadata, reply, orNull(r.Options), orNull(r.Checkpoint))
	if !isPlain(r) {
		if args, err = bindMore(args, r); err != nil {
			return nil, err
		}
	}
	return append(args, r.ID), nil
}

// isPlain reports whether bindMore would bind nothing but NULL.
func isPlain(r *mailroom.Run) bool {
	return r.Caller == nil && len(r.Lineage) == 0 && r.Wait == nil && !r.Resumes && r.Asked == 0 &&
		r.Usage == mailroom.Usage{} && r.Progress == ""
}

func bindMore(args []any, r *mailroom.Run) ([]any, error) {
	var resumes, asked, usage any
	if r.Resumes {
		resumes = int64(1)
	}
	if r.Asked != 0 {
		asked = int64(r.Asked)
	}
	if r.Usage != (mailroom.Usage{}) {
		var err error
		if usage, err = encodeJSON(r.Usage); err != nil {
			return nil, err
		}
	}
	return append(args, encodeCaller(r.Caller), encodeTexts(r.Lineage), encodeWait(r.Wait), resumes, asked, usage,
		orNull(r.Progress)), nil
}

func scanRun(row []driver.Value) (*mailroom.Run, error) {
	c := columns{row: row}
	r := &mailroom.Run{
		Key: c.int64(), ID: c.text(), Thread: c.text(), Agent: c.text(), AgentVersion: c.text(),
		Mode: mailroom.Mode(c.text()), Priority: c.int(), Place: c.int64(), SubmitKey: c.text(),
		Parent: c.text(), MaxAttempts: c.int(), FirstSeq: c.int64(), Status: mailroom.Status(c.text()),
		Stop: mailroom.Reason(c.text()), StopBy: c.text(), Held: c.bool(), NotBefore: c.time(),
		AvailableAt: c.time(), Attempt: c.int(), Failures: c.int(), Crashes: c.int(), Lost: c.int(),
		Outages: c.int(), OutageSince: c.time(), Step: c.int(), Started: c.bool(),
		Reason: mailroom.Reason(c.text()), CreatedAt: c.time(), StartedAt: c.time(), FinishedAt: c.time(),
	}
	c.json(&r.Origin)
	c.json(&r.LastStep)
	c.json(&r.Inputs)
	steers := c.text()
	c.json(&r.Error)
	c.json(&r.Metadata)
	if reply, ok := c.next().(string); ok {
		r.Reply = &reply
	}
	r.Options, r.Checkpoint = c.raw(), c.raw()
	c.json(&r.Caller)
	c.json(&r.Lineage)
	c.json(&r.Wait)
	r.Resumes, r.Asked = c.bool(), c.int()
	c.json(&r.Usage)
	r.Progress = c.text()
	if c.err == nil {
		r.Steers, c.err = decodeSteers(steers)
	}
	return r, c.err
}

func scanWorker(row []driver.Value) (*mailroom.Worker, error) {
	c := columns{row: row}
	w := &mailroom.Worker{ID: c.text(), Host: c.text(), PID: c.int(), Local: c.bool()}
	c.json(&w.Agents)
	w.StartedAt, w.LeaseUntil, w.Dead = c.time(), c.time(), c.bool()
	return w, c.err
}
