package schedule

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/thread"
)

// File is what a configuration file says about schedules. They have the rights of the operator.
type File struct {
	Specs map[string]plan.Spec // by name, checked
	// Changed is when the file was changed. Of several servers, the newest file counts.
	Changed time.Time
	Shared  bool // other servers with files of their own use the store
	// Silent says that the file has no table of schedules. If the store is shared, the file then changes none, because
	// the file of another server may have them.
	Silent bool
}

// writer is the part of the ledger that changes schedules.
type writer interface {
	viewer
	Submit(ctx context.Context, in thread.Submit) (store.Submitted, error)
}

const (
	applyPage  = 100                   // schedules that are read at a time
	applyCheck = 50 * time.Millisecond // how often Apply looks whether its commands were carried out
	applyLimit = time.Minute           // how long it waits for them
)

// Apply makes the operator's schedules what the file says, and returns when they are. It changes nothing that is so
// already, so a repetition is free. Only one server may call it at a time. It logs what it cannot do.
func (f *File) Apply(ctx context.Context, l writer, operator *auth.Token, log *slog.Logger) error {
	found, err := readSchedules(ctx, l)
	if err != nil {
		return err
	}
	var newest time.Time
	managed := 0
	for _, s := range found {
		if s.Configured != nil && s.Configured.Revision.After(newest) {
			newest = s.Configured.Revision
		}
		if s.FromFile() {
			managed++
		}
	}
	revision := f.Changed
	switch {
	case !f.Shared:
		revision = time.Time{} // there is no other file: what is so stays, whenever the file was changed
	case f.Silent && managed > 0:
		log.Info("the configuration has no table of schedules, so it changes none; an empty [schedules] removes them",
			"schedules", managed)
		return nil
	case revision.Before(newest):
		log.Warn("schedules of the configuration not applied: another server had a newer file", "changed", revision,
			"newest", newest)
		return nil
	}
	var commands []change
	for _, name := range slices.Sorted(maps.Keys(f.Specs)) {
		if c := f.set(name, found[name], operator, revision, log); c != nil {
			commands = append(commands, *c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, has := f.Specs[name]; !has && found[name].FromFile() {
			commands = append(commands, change{name, plan.Command{Op: plan.OpConfigure}})
		}
	}
	if revision = f.Changed; revision.Before(newest) {
		revision = newest
	}
	for i := range commands {
		commands[i].command.Revision = revision
	}
	return carryOut(ctx, l, commands, operator, log)
}

// change is a command that Apply sends.
type change struct {
	name    string
	command plan.Command
}

// set returns the command that makes a schedule what the file says, nil if none is needed or possible. s is nil if
// there is no such schedule.
func (f *File) set(name string, s *plan.State, operator *auth.Token, revision time.Time, log *slog.Logger) *change {
	spec := f.Specs[name]
	if s != nil {
		if !s.NeedsConfigure(operator.ID(), &spec, revision) {
			return nil
		}
		if s.Configured == nil {
			log.Warn("the configuration takes over a schedule that a command made", "schedule", name)
		}
	}
	if s == nil || !s.Follows(&spec) {
		checked := spec
		if err := checked.Check(time.Now()); err != nil { // its only time has passed, for example
			log.Warn("schedule of the configuration not made", "schedule", name, "error", err)
			return nil
		}
	}
	return &change{name, plan.Command{Op: plan.OpConfigure, Source: operator.ID(), Spec: &spec}}
}

// readSchedules returns the operator's schedules by name.
func readSchedules(ctx context.Context, l viewer) (map[string]*plan.State, error) {
	found := map[string]*plan.State{}
	q := store.ThreadQuery{Prefix: reserved.ScheduleID(auth.Operator, ""), Limit: applyPage}
	for {
		var page []*mailroom.Thread
		if err := l.View(ctx, func(r store.Reader) (err error) {
			page, err = r.Threads(q)
			return err
		}); err != nil {
			return nil, err
		}
		for _, t := range page {
			q.After = t.ID
			if !t.DeletedAt.IsZero() {
				continue
			}
			state, err := plan.Read(t)
			if err != nil {
				return nil, err
			}
			if _, name := reserved.SchedulePlace(t.ID); state != nil {
				found[name] = state
			}
		}
		if len(page) < applyPage {
			return found, nil
		}
	}
}

// carryOut sends commands and waits until they are carried out.
func carryOut(ctx context.Context, l writer, all []change, operator *auth.Token, log *slog.Logger) error {
	open := map[string]string{} // names by run
	first := 0
	for _, c := range all {
		c.command.By = plan.Server
		parts, err := c.command.Parts()
		if err != nil {
			return err
		}
		out, err := l.Submit(ctx, thread.Submit{
			Thread: reserved.ScheduleID(auth.Operator, c.name), Agent: reserved.Scheduler,
			Messages: []thread.NewMessage{{Parts: parts}}, Sender: auth.Operator, Owner: auth.Operator, By: operator,
			ByServer: true, Priority: &first, Origin: mailroom.Origin{Via: reserved.ViaSchedule, Sender: auth.Operator},
		})
		if err != nil {
			return err
		}
		open[out.Run] = c.name
	}
	end := time.Now().Add(applyLimit)
	for {
		for ids := range slices.Chunk(slices.Sorted(maps.Keys(open)), applyPage) {
			if err := dropEnded(ctx, l, ids, open, log); err != nil {
				return err
			}
		}
		switch {
		case len(open) == 0:
			if len(all) > 0 {
				log.Info("schedules of the configuration applied", "changed", len(all))
			}
			return nil
		case time.Now().After(end):
			return errors.New("the schedules of the configuration were not changed within a minute")
		}
		select {
		case <-time.After(applyCheck):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// dropEnded removes the runs from open that have ended.
func dropEnded(ctx context.Context, l viewer, ids []string, open map[string]string, log *slog.Logger) error {
	return l.View(ctx, func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{IDs: ids})
		if err != nil {
			return err
		}
		still := map[string]bool{}
		for _, run := range runs {
			still[run.ID] = !run.Status.Finished()
			if run.Error != nil && run.Status.Finished() {
				log.Warn("schedule of the configuration not changed", "schedule", open[run.ID], "error", run.Error.Message)
			}
		}
		for _, id := range ids {
			if !still[id] { // also if it was deleted with its thread
				delete(open, id)
			}
		}
		return nil
	})
}
