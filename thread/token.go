package thread

import (
	"strings"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
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
	if err := CheckReached(t, in, s.found.Reserved); err != nil {
		return err
	}
	return s.checkOwner()
}

// CheckReached returns an error if the submitter may not see the thread of the submit, which exists. It is the same
// error as for a thread that the submitter may not create. Call it before anything else of the thread is looked at,
// such as the quota of its owner.
func CheckReached(t *State, in *Submit, configured []string) error {
	if reserved.Prefix(t.ID) == reserved.Audit {
		return errAudit(t.ID)
	}
	seen := in.By == nil || in.By.CanSee(&t.Thread)
	if in.Origin.Via == "wake" {
		seen = t.Owner == in.Owner || t.Owner == auth.Operator
	}
	switch {
	case seen || !t.Exists():
		return nil
	case in.By != nil && in.By.MayCreate(t.ID) && !in.ByServer && !in.By.Has(auth.PermissionAdmin):
		if err := checkReserved(t.ID, configured); err != nil {
			return err
		}
	}
	return errNoThread(t.ID)
}

// errAudit refuses what would change the audit log.
func errAudit(id string) error {
	return mailroom.Errorf(mailroom.CodeForbidden, "thread %q is the audit log, which only the server writes", id)
}

// checkReserved refuses an id if only the server or the operator may create its thread, whether the thread exists
// or not.
func checkReserved(id string, configured []string) error {
	if reserved.ForServer(id) {
		return mailroom.Errorf(mailroom.CodeForbidden,
			"no thread %q for this token, and only the server creates threads whose id begins with %q", id, reserved.Prefix(id))
	}
	for _, begin := range append([]string{reserved.Prefix(id)}, configured...) {
		if begin != "" && strings.HasPrefix(id, begin) {
			return mailroom.Errorf(mailroom.CodeForbidden,
				"no thread %q for this token, and only the operator may create threads whose id begins with %q", id, begin)
		}
	}
	return nil
}

// checkOwner refuses a submit of a part of the server to a reserved thread that another owner created before its id
// was reserved: that owner would read the messages.
func (s *submission) checkOwner() error {
	t := s.t
	if s.ofServer() && reserved.ForServer(t.ID) && t.Owner != reserved.Owner(t.ID) {
		return mailroom.Errorf(mailroom.CodeConflict,
			"thread %q is the server's, but token %s owns it: delete it with `mailroom threads delete`", t.ID, t.Owner)
	}
	return nil
}

// ofServer reports whether a part of the server submits.
func (s *submission) ofServer() bool { return s.in.ByServer || s.in.By == nil }

// checkCreate returns an error if the submitter may not create the thread.
func (s *submission) checkCreate() error {
	id, by := s.t.ID, s.in.By
	if by != nil && !by.MayCreate(id) {
		return errNoThread(id)
	}
	switch {
	case s.in.Origin.Via == "wake" && reserved.Prefix(id) == reserved.Schedule: // it was deleted while a run was open
		return errNoThread(id)
	case s.ofServer() && reserved.ForServer(id) && s.in.Owner == reserved.Owner(id):
		return nil
	case s.in.From != nil && reserved.MayOpen(s.in.From.Thread, s.in.Owner, id):
		return nil
	case reserved.ForServer(id), !s.ofServer() && !by.Has(auth.PermissionAdmin):
		if err := checkReserved(id, s.found.Reserved); err != nil {
			return err
		}
	}
	if !s.ofServer() && s.found.ForeignNamespace {
		return errNoThread(id)
	}
	return nil
}
