package thread

import (
	"strings"

	"mailroom"
	"mailroom/auth"
)

// Exists reports whether the thread exists, in the store or in this transaction.
func (t *State) Exists() bool { return t.Key != 0 || !t.CreatedAt.IsZero() }

// CheckVisibleTo returns CodeNotFound if the thread does not exist or who may not see it; the error
// is the same in both cases. A nil who is the server itself.
func (t *State) CheckVisibleTo(who *auth.Token) error {
	if t.CreatedAt.IsZero() || !t.DeletedAt.IsZero() || who != nil && !who.CanSee(&t.Thread) {
		return errNoThread(t.ID)
	}
	return nil
}

func errNoThread(id string) error { return mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id) }

// checkReachable returns CodeNotFound if the submitter may not see the thread. The end of a run is
// reported only to threads of the run's owner or of the operator: a thread recreated by another
// owner under a deleted thread's id does not receive it. A new thread may have a reserved id.
func (s *submission) checkReachable() error {
	t, in := s.t, s.in
	if !t.Exists() {
		return s.checkCreate()
	}
	seen := in.By == nil || in.By.CanSee(&t.Thread)
	if in.Origin.Via == "wake" {
		seen = t.Owner == in.Owner || t.Owner == auth.Operator
	}
	if seen {
		return nil
	}
	return errNoThread(t.ID)
}

// checkCreate returns an error if the submitter may not create the thread.
func (s *submission) checkCreate() error {
	id, by := s.t.ID, s.in.By
	if by != nil && !by.MayCreate(id) {
		return errNoThread(id)
	}
	if by == nil || by.Name == auth.Operator || by.Has(auth.PermissionAdmin) {
		return nil
	}
	if s.found.ForeignNamespace {
		return errNoThread(id)
	}
	for _, begin := range s.found.Reserved {
		if strings.HasPrefix(id, begin) {
			return mailroom.Errorf(mailroom.CodeForbidden, "thread %q does not exist, and only the operator may create threads whose id begins with %q", id, begin)
		}
	}
	return nil
}
