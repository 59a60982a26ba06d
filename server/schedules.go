package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// scheduleHandlers serve schedules. A change is a message to the schedule's thread, whose agent carries it out; the
// handler waits for that.
type scheduleHandlers struct {
	messages Messages
	threads  operate.Threads
	operator *auth.Token
	find     request.Lookup
	agents   *agentHandlers
	runs     *runHandlers
	within   time.Duration // for a command to be carried out
}

// SchedulePath is a schedule in a path, and its owner.
type SchedulePath struct {
	Name  string `path:"name" maxLength:"60" doc:"Name of the schedule."`
	Owner string `query:"owner" doc:"Token that owns it; another needs the scope admin."`
}

// id returns the id of the schedule's thread. change says that the caller wants to change the schedule.
func (p *SchedulePath) id(ctx context.Context, change bool) (string, error) {
	owner, err := scheduleOwner(ctx, p.Owner, change)
	if err != nil {
		return "", err
	}
	if err := plan.CheckName(p.Name); err != nil {
		return "", request.Locate("path.", err)
	}
	return reserved.ScheduleID(owner, p.Name), nil
}

// scheduleOwner returns whose schedules the caller asks for. A limited token has none and changes none: a schedule
// sends with all rights of its owner's threads, and does not end with the limited token.
func scheduleOwner(ctx context.Context, owner string, change bool) (string, error) {
	who := requestOf(ctx).who
	if change && (who.Limited() || who.Terms.Kind == auth.KindLimited) {
		return "", mailroom.Errorf(mailroom.CodeForbidden,
			"a limited token cannot change schedules: use token %s itself", who.Name)
	}
	if owner != "" && owner != who.Name && !who.Has(auth.PermissionAdmin) {
		return "", mailroom.Errorf(mailroom.CodeForbidden, "schedules of other tokens need a token with the scope admin")
	}
	if owner == "" {
		owner = who.Name
	}
	return owner, nil
}

type putScheduleInput struct{ Body api.PutSchedule }

// put makes or changes a schedule of the caller. Schedules of others cannot be changed, because they use the rights of
// their owners.
func (h *scheduleHandlers) put(ctx context.Context, in *putScheduleInput) (*body[api.ScheduleChanged], error) {
	owner, err := scheduleOwner(ctx, "", true)
	if err != nil {
		return nil, err
	}
	if err := plan.CheckName(in.Body.Name); err != nil {
		return nil, request.Locate("body.", err)
	}
	if in.Body.Own {
		return h.putOwn(ctx, owner, &in.Body)
	}
	if reserved.IsOwnName(in.Body.Name) {
		return nil, request.Invalid("body.name", "is taken by the own schedules of a thread: choose another one",
			in.Body.Name)
	}
	spec, err := plan.ReadSpec(&in.Body.Spec, time.Now())
	if err != nil {
		return nil, request.Locate("body.spec.", err)
	}
	if spec.Agent != "" {
		if err := h.agents.checkAgent(ctx, spec.Agent); err != nil {
			return nil, err
		}
	}
	message := spec.Submit(in.Body.Name, time.Time{})
	message.Owner = owner
	err = h.find.View(ctx, func(rd store.Reader) error { return ledger.CheckMessage(rd, message) })
	if err != nil {
		return nil, request.Locate("body.spec.", err)
	}
	return h.do(ctx, reserved.ScheduleID(owner, in.Body.Name), "schedule.put",
		plan.Command{Op: plan.OpSet, Spec: &spec})
}

type pauseScheduleInput struct {
	SchedulePath
	Body api.PauseSchedule
}

func (h *scheduleHandlers) pause(ctx context.Context, in *pauseScheduleInput) (*body[api.ScheduleChanged], error) {
	if !check.IsClean(in.Body.Note) {
		return nil, request.Invalid("body.note", "is not valid UTF-8 text", in.Body.Note)
	}
	return h.change(ctx, &in.SchedulePath, "schedule.pause", plan.Command{Op: plan.OpPause, Note: in.Body.Note})
}

type scheduleInput struct {
	SchedulePath
	EmptyBody
}

func (h *scheduleHandlers) resume(ctx context.Context, in *scheduleInput) (*body[api.ScheduleChanged], error) {
	return h.change(ctx, &in.SchedulePath, "schedule.resume", plan.Command{Op: plan.OpResume})
}

type runScheduleInput struct {
	Key string `header:"Idempotency-Key" doc:"The same request with the same key sends once."`
	SchedulePath
	EmptyBody
}

func (h *scheduleHandlers) trigger(ctx context.Context, in *runScheduleInput) (*body[api.ScheduleChanged], error) {
	return h.change(ctx, &in.SchedulePath, "schedule.run", plan.Command{Op: plan.OpTrigger}, in.Key)
}

// change carries out a command on a schedule that exists. With a key, a repetition is not carried out again.
func (h *scheduleHandlers) change(
	ctx context.Context, p *SchedulePath, action string, c plan.Command, key ...string,
) (*body[api.ScheduleChanged], error) {
	id, err := p.id(ctx, true)
	if err != nil {
		return nil, err
	}
	if _, err := h.read(ctx, id); err != nil {
		return nil, err
	}
	return h.do(ctx, id, action, c, key...)
}

// do submits a command, waits until it is carried out, and returns what it led to.
func (h *scheduleHandlers) do(
	ctx context.Context, id, action string, c plan.Command, key ...string,
) (*body[api.ScheduleChanged], error) {
	owner, name := reserved.SchedulePlace(id)
	who := requestOf(ctx).who
	c.By = who.Name
	if c.Op == plan.OpSet || c.Op == plan.OpResume {
		var err error
		if c.Source, err = h.source(ctx, owner); err != nil {
			return nil, err
		}
	}
	parts, err := c.Parts()
	if err != nil {
		return nil, err
	}
	done := ledger.Action{Name: action, ObjectKind: "schedule", Object: name, Detail: map[string]string{"owner": owner}}
	reply, _, err := h.carryOut(ledger.WithAction(ctx, &done), id, owner, parts, key...)
	if err != nil {
		return nil, err
	}
	if reply != "" {
		return nil, errNotChanged(reply)
	}
	state, err := h.read(ctx, id)
	if err != nil {
		return nil, err
	}
	shown := plan.Show(state, time.Now())
	return &body[api.ScheduleChanged]{shown.Changed()}, nil
}

func errNotChanged(why string) error {
	return mailroom.Errorf(mailroom.CodeConflict, "the schedule was not changed: %s", why)
}

// carryOut submits a command to the thread id, and returns its run with the reply.
func (h *scheduleHandlers) carryOut(
	ctx context.Context, id, owner string, parts []mailroom.Part, key ...string,
) (reply, run string, err error) {
	who, first := requestOf(ctx).who, 0
	out, err := h.messages.Submit(ctx, thread.Submit{
		Thread: id, Agent: reserved.Scheduler, Messages: []thread.NewMessage{{Parts: parts}}, Sender: who.Name,
		Owner: owner, By: who, ByServer: true, Key: strings.Join(key, ""), Priority: &first,
		Origin: mailroom.Origin{Via: reserved.ViaSchedule, Sender: who.Name, RequestID: requestOf(ctx).id},
	})
	if err != nil {
		return "", "", err
	}
	reply, err = h.await(ctx, out.Run)
	return reply, out.Run, err
}

// await waits for the end of a run of the agent of schedules, and returns its reply.
func (h *scheduleHandlers) await(ctx context.Context, id string) (reply string, err error) {
	ended, err := h.runs.waitRun(ctx, &waitRunInput{RunPath: RunPath{Run: id}, Timeout: h.within.String()})
	if err != nil {
		return "", err
	}
	switch run := &ended.Body; {
	case !run.Status.Finished():
		return "", &mailroom.Error{Code: mailroom.CodeUnavailable, RetryAfter: time.Second,
			Message: "no server has carried the request out yet; one that runs the agent " + reserved.Scheduler + " will"}
	case run.Error != nil:
		return "", errNotChanged(run.Error.Message)
	case run.Reply != nil:
		reply = *run.Reply
	}
	return reply, nil
}

// source returns the row of the owner's token, whose rights the schedule uses.
func (h *scheduleHandlers) source(ctx context.Context, owner string) (id string, err error) {
	if owner == auth.Operator {
		return h.operator.ID(), nil
	}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Tokens(owner)
		for _, row := range rows {
			if row.Terms.Kind == auth.KindToken && row.RevokedAt.IsZero() && !row.Expired(time.Now()) {
				id = row.ID()
			}
		}
		return err
	})
	if err == nil && id == "" {
		err = mailroom.Errorf(mailroom.CodeConflict, "token %s has ended: pause or delete its schedules", owner)
	}
	return id, err
}

// read returns a schedule that the caller sees.
func (h *scheduleHandlers) read(ctx context.Context, id string) (s *plan.State, err error) {
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(t *mailroom.Thread) bool {
			return !requestOf(ctx).who.CanSee(t) || !t.DeletedAt.IsZero()
		})
		found, err := schedule.Read(rd, rows, time.Now())
		if len(found) > 0 {
			s = found[0]
		}
		return err
	})
	if err == nil && s == nil {
		_, name := reserved.SchedulePlace(id)
		err = mailroom.Errorf(mailroom.CodeNotFound, "no schedule %q", name)
	}
	return s, err
}

type getScheduleInput struct{ SchedulePath }

func (h *scheduleHandlers) get(ctx context.Context, in *getScheduleInput) (*body[api.Schedule], error) {
	id, err := in.id(ctx, false)
	if err != nil {
		return nil, err
	}
	state, err := h.read(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[api.Schedule]{plan.Show(state, time.Now())}, nil
}

type listSchedulesInput struct {
	Cursor string `query:"cursor" doc:"The next of the previous page."`
	Owner  string `query:"owner" doc:"Token that owns them, * for all; another needs the scope admin."`
	Own    string `query:"own" doc:"Thread: only the open ones that are its own, all of them."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Schedules of the page at most."`
}

func (h *scheduleHandlers) list(
	ctx context.Context, in *listSchedulesInput,
) (*body[api.Page[api.Schedule]], error) {
	owner, err := scheduleOwner(ctx, in.Owner, false)
	if err != nil {
		return nil, err
	}
	if in.Own != "" {
		return h.listOwn(ctx, in.Own)
	}
	prefix := reserved.ScheduleID(owner, "")
	if owner == "*" {
		prefix = reserved.Schedule
	}
	out := api.Page[api.Schedule]{Items: []api.Schedule{}}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Threads(store.ThreadQuery{Prefix: prefix, After: in.Cursor, Limit: in.Limit + 1})
		if err != nil {
			return err
		}
		if len(rows) > in.Limit {
			out.Next = &rows[in.Limit-1].ID
			rows = rows[:in.Limit]
		}
		rows = slices.DeleteFunc(rows, func(t *mailroom.Thread) bool { return !requestOf(ctx).who.CanSee(t) })
		found, err := schedule.Read(rd, rows, time.Now())
		for _, state := range found {
			if state.Own == nil || !state.Over() {
				out.Items = append(out.Items, plan.Show(state, time.Now()))
			}
		}
		return err
	})
	return &body[api.Page[api.Schedule]]{out}, err
}

// deletions bounds how often a deletion begins again because the end of a run has come in between.
const deletions = 5

// remove cancels what the schedule has before it, and deletes its thread.
func (h *scheduleHandlers) remove(ctx context.Context, in *getScheduleInput) (_ *empty, err error) {
	id, err := in.id(ctx, true)
	if err != nil {
		return nil, err
	}
	state, err := h.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if state.FromFile() {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "the schedule was not deleted: %s", plan.FromFileError(id))
	}
	for range deletions {
		var open []*mailroom.Run
		if err := h.find.View(ctx, func(rd store.Reader) (err error) {
			open, err = rd.Runs(store.RunQuery{Thread: id, Statuses: []mailroom.Status{
				mailroom.StatusQueued, mailroom.StatusWaiting, mailroom.StatusRunning}})
			return err
		}); err != nil {
			return nil, err
		}
		for _, run := range open { // the newest first, so that none starts when the one before it ends
			if _, err := h.runs.ledger.Cancel(ctx, run.ID, reserved.Scheduler); err != nil &&
				mailroom.CodeOf(err) != mailroom.CodeConflict { // it has ended
				return nil, err
			}
			if _, err := h.runs.waitRun(ctx, &waitRunInput{RunPath{run.ID}, h.within.String()}); err != nil {
				return nil, err
			}
		}
		if err = h.threads.DeleteThread(ctx, id, nil); mailroom.CodeOf(err) != mailroom.CodeConflict {
			return nil, err
		}
	}
	return nil, err
}
