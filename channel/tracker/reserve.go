package tracker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mailroom"
	issues "mailroom/tracker"
)

// Projects is where agents elsewhere see what is worked on here: in clones of
// their own they do not have the file as it is now.
type Projects interface {
	Reserve(ctx context.Context, in mailroom.Reserve) (mailroom.Reserved, error)
	ReleaseNames(ctx context.Context, project, holder string, names []string, by *mailroom.Token) ([]mailroom.Reservation, error)
}

const (
	// reservationTTL is how long a reservation lasts; it is renewed at half of it.
	reservationTTL = time.Hour
	// reservationRetry is after how long an issue that somebody elsewhere has reserved
	// is tried again.
	reservationRetry = 30 * time.Second
	// reservationReason is by what those of a tracker are known.
	reservationReason = "the tracker has given it to its agent"
)

// reservation is what is known of the one of an issue.
type reservation struct {
	holder string    // "": somebody else's
	next   time.Time // when it is to be asked for again
}

// reservationName is what an issue is called in a project, as bd calls it.
func reservationName(issue string) string { return ".beads/issues/" + issue }

// operator is who reserves: the server itself.
func operator() *mailroom.Token {
	return &mailroom.Token{Name: mailroom.Operator, Scopes: []mailroom.Permission{mailroom.PermissionAdmin}}
}

// reserve reserves an issue for an agent, or renews that. It reports false if
// somebody else has it. Any other refusal stops no work.
func (r *receiver) reserve(ctx context.Context, issue, agent string) (ours bool, err error) {
	if r.options.Project == "" {
		return true, nil
	}
	now := time.Now()
	if had := r.reserved[issue]; had.holder == agent && now.Before(had.next) {
		return true, nil
	}
	_, err = r.options.Projects.Reserve(ctx, mailroom.Reserve{
		Project: r.options.Project, Names: []string{reservationName(issue)}, Holder: agent, By: operator(), Reason: reservationReason, TTL: reservationTTL,
	})
	switch mailroom.CodeOf(err) {
	case "":
		r.reserved[issue] = reservation{agent, now.Add(reservationTTL / 2)}
		return true, nil
	case mailroom.CodeConflict:
		r.host.Log().Info("an issue is left to who has reserved it", "issue", issue, "reason", err)
		r.reserved[issue] = reservation{"", now.Add(reservationRetry)}
		return false, nil
	case mailroom.CodeUnavailable:
		return false, err
	}
	r.host.ReportError(fmt.Errorf("issue %s cannot be reserved in project %s: %w", issue, r.options.Project, err))
	r.reserved[issue] = reservation{agent, now.Add(reservationTTL / 2)}
	return true, nil
}

// isReservedElsewhere reports whether somebody else has reserved an issue, as far as is known.
func (r *receiver) isReservedElsewhere(issue string) bool {
	had, known := r.reserved[issue]
	return known && had.holder == "" && time.Now().Before(had.next)
}

// syncReservations renews the reservations of what is in progress, and releases the others.
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
		_, err := r.options.Projects.ReleaseNames(ctx, r.options.Project, had.holder, []string{reservationName(issue)}, operator())
		if ctx.Err() != nil || mailroom.CodeOf(err) == mailroom.CodeUnavailable {
			return err
		}
		if err != nil {
			r.host.ReportError(fmt.Errorf("the reservation of issue %s cannot be released: %w", issue, err))
		}
		delete(r.reserved, issue)
	}
	return nil
}

// loadReservations reads which reservations there are of a receiver before this one.
func (r *receiver) loadReservations(ctx context.Context) error {
	r.reserved = map[string]reservation{}
	thread, err := mailroom.ProjectThread(r.options.Project)
	if err != nil {
		return nil // it has none, and every try says so
	}
	return r.host.View(ctx, func(rd mailroom.Reader) error {
		rows, err := rd.Reservations(mailroom.ReservationQuery{Thread: thread})
		for _, row := range rows {
			if issue, ok := strings.CutPrefix(row.Name, reservationName("")); ok && row.Reason == reservationReason && row.Owner == mailroom.Operator {
				r.reserved[issue] = reservation{holder: row.Holder} // to be renewed, or released
			}
		}
		return err
	})
}

// reserveNext reserves the issues that are claimed next. Those of others are not
// ready any more after it.
func (r *receiver) reserveNext(ctx context.Context, ready []*issues.Issue, room int) error {
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
