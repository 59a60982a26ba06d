package feed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/issues/tracker"
	"mailroom/project"
	"mailroom/store"
)

// Projects reserves issues in a project. Agents in other clones do not see the current file; the reservation shows
// which issues are being worked on.
type Projects interface {
	Reserve(ctx context.Context, in project.Reserve) (project.Reserved, error)
	ReleaseNames(ctx context.Context, project, holder string, names []string, by *auth.Token) ([]store.Reservation, error)
}

const (
	// reservationTTL is the lifetime of a reservation. The server renews a reservation after half of this time.
	reservationTTL = time.Hour
	// reservationRetry is the delay before an issue reserved by another agent is tried again.
	reservationRetry = 30 * time.Second
	// reservationReason identifies reservations made by trackers.
	reservationReason = "the tracker has given it to its agent"
)

// reservation is the known reservation of an issue.
type reservation struct {
	holder string    // "" for a reservation of another agent
	next   time.Time // time of the next renewal or retry
}

// reservationName returns the name of an issue in a project, in the form that bd uses.
func reservationName(issue string) string { return ".beads/issues/" + issue }

// operator returns the token under which reservations are made: the server's own.
func operator() *auth.Token {
	return &auth.Token{Name: auth.Operator, Scopes: []auth.Permission{auth.PermissionAdmin}}
}

// reserve reserves an issue for an agent or renews the reservation. ours is false if another agent has reserved it.
// Any other failure to reserve is reported and does not stop the work on the issue.
func (r *receiver) reserve(ctx context.Context, issue, agent string) (ours bool, err error) {
	if r.options.Project == "" {
		return true, nil
	}
	now := time.Now()
	if had := r.reserved[issue]; had.holder == agent && now.Before(had.next) {
		return true, nil
	}
	_, err = r.options.Projects.Reserve(ctx, project.Reserve{
		Project: r.options.Project, Names: []string{reservationName(issue)}, Holder: agent, By: operator(),
		Reason: reservationReason, TTL: reservationTTL,
	})
	switch mailroom.CodeOf(err) {
	case "":
		r.reserved[issue] = reservation{agent, now.Add(reservationTTL / 2)}
		return true, nil
	case mailroom.CodeConflict:
		r.host.Log().Info("issue skipped: reserved by another agent", "issue", issue, "reason", err)
		r.reserved[issue] = reservation{"", now.Add(reservationRetry)}
		return false, nil
	case mailroom.CodeUnavailable:
		return false, err
	}
	r.host.ReportError(fmt.Errorf("cannot reserve issue %s in project %s: %w", issue, r.options.Project, err))
	r.reserved[issue] = reservation{agent, now.Add(reservationTTL / 2)}
	return true, nil
}

// isReservedElsewhere reports whether another agent is known to have reserved an issue.
func (r *receiver) isReservedElsewhere(issue string) bool {
	had, known := r.reserved[issue]
	return known && had.holder == "" && time.Now().Before(had.next)
}

// syncReservations renews the reservations of issues in progress and releases the others.
func (r *receiver) syncReservations(ctx context.Context) error {
	if r.options.Project == "" {
		return nil
	}
	if r.reserved == nil {
		if err := r.loadReservations(ctx); err != nil {
			return err
		}
	}
	held := map[string]bool{}
	for _, c := range r.claims {
		if !c.inProgress() {
			continue
		}
		held[c.issue.ID] = true
		if _, err := r.reserve(ctx, c.issue.ID, c.issue.Assignee); err != nil {
			return err
		}
	}
	for issue, had := range r.reserved {
		if held[issue] || had.holder == "" {
			continue
		}
		_, err := r.options.Projects.ReleaseNames(ctx, r.options.Project, had.holder, []string{reservationName(issue)},
			operator())
		if ctx.Err() != nil || mailroom.CodeOf(err) == mailroom.CodeUnavailable {
			return err
		}
		if err != nil {
			r.host.ReportError(fmt.Errorf("cannot release the reservation of issue %s: %w", issue, err))
		}
		delete(r.reserved, issue)
	}
	return nil
}

// loadReservations loads the reservations made before this receiver started.
func (r *receiver) loadReservations(ctx context.Context) error {
	r.reserved = map[string]reservation{}
	thread, err := project.ThreadID(r.options.Project)
	if err != nil {
		return nil // an invalid project name; each reservation attempt reports it
	}
	return r.host.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Reservations(store.ReservationQuery{Thread: thread})
		for _, row := range rows {
			if issue, ok := strings.CutPrefix(row.Name, reservationName("")); ok && row.Reason == reservationReason &&
				row.Owner == auth.Operator {
				r.reserved[issue] = reservation{holder: row.Holder} // renewed or released by syncReservations
			}
		}
		return err
	})
}

// reserveNext reserves the issues to claim next. Issues reserved by other agents are no longer
// ready afterwards.
func (r *receiver) reserveNext(ctx context.Context, ready []*tracker.Issue, room int) error {
	for _, it := range ready {
		if room <= 0 {
			return nil
		}
		ours, err := r.reserve(ctx, it.ID, r.agentOf(it))
		if err != nil {
			return err
		}
		if ours {
			room--
		}
	}
	return nil
}
