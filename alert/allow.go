package alert

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// MayDeliver reports whether the threads and the rules of a token may deliver to a target whose setting tokens
// is allowed.
func MayDeliver(t *auth.Token, allowed []string, now time.Time) bool {
	return t.RevokedAt.IsZero() && !t.Expired(now) && (t.Has(auth.PermissionAdmin) || slices.Contains(allowed, t.Name))
}

// refuseOwner returns why an alert in a thread of a target must not be sent for the thread's owner, "" if it
// may. A thread that subscribed delivers here until its token is revoked, expires, or may not use the target
// any more.
func (a *Agent) refuseOwner(r store.Reader, t *mailroom.Thread, now time.Time) (why string, err error) {
	if t.Owner == auth.Operator {
		return "", nil
	}
	rows, err := r.Tokens(t.Owner)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 || !MayDeliver(rows[0], a.options.Tokens, now) {
		return "token " + t.Owner + " may not deliver to target " + a.options.Name + " any more", nil
	}
	return "", nil
}
