package alert

import (
	"encoding/json"
	"fmt"
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

// Subscriber is the part of the metadata of a subscriber's thread that says who subscribed.
type Subscriber struct {
	By string `json:"by"` // name of the token that subscribed, which may be the operator's
	// Token is the name of the row of a token that acts for By, such as the session of a browser. "": By itself.
	Token string `json:"token,omitempty"`
}

// ended returns why a subscription has ended, "" if it has not: only admins subscribe, with a token that is
// valid. rows are the tokens that it names.
func (s *Subscriber) ended(rows map[string]*auth.Token, now time.Time) (why string) {
	valid := func(name string) *auth.Token {
		if t := rows[name]; t != nil && t.RevokedAt.IsZero() && !t.Expired(now) {
			return t
		}
		return nil
	}
	admin := auth.PermissionAdmin
	if t := valid(s.By); s.By != "" && s.By != auth.Operator && (t == nil || !t.Has(admin)) {
		return fmt.Sprintf("token %s was revoked, has expired or is no admin", s.By)
	}
	if t := valid(s.Token); s.Token != "" && (t == nil || t.Terms.For != s.By || !slices.Contains(t.Terms.Scopes, admin)) {
		return "the session that subscribed has ended"
	}
	return ""
}

// GoneSubscribers returns why subscribers get no further alerts, by the ids of their threads. Others are not in
// the result.
func GoneSubscribers(r store.Reader, threads []*mailroom.Thread, now time.Time) (map[string]string, error) {
	var names []string
	subscribers := make([]Subscriber, len(threads))
	for i, t := range threads {
		if json.Unmarshal(t.Metadata, &subscribers[i]) != nil {
			subscribers[i] = Subscriber{} // an operator may have changed it; the target then refuses it
		}
		names = append(names, subscribers[i].By, subscribers[i].Token)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" || name == auth.Operator })
	rows := map[string]*auth.Token{}
	if len(names) > 0 {
		found, err := r.Tokens(names...)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			rows[t.Name] = t
		}
	}
	gone := map[string]string{}
	for i, t := range threads {
		why := subscribers[i].ended(rows, now)
		if isGone(t) {
			why = "the subscriber does not exist any more"
		}
		if why != "" {
			gone[t.ID] = why
		}
	}
	return gone, nil
}
