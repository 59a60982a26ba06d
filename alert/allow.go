package alert

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// Allowed maps each target of a server to the names of the tokens whose threads and rules may deliver to it. Tokens
// with the admin permission may deliver to all.
type Allowed map[string][]string

// Usable returns the targets that the rules of an owner may name.
func (a Allowed) Usable(owner string) (targets []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if owner == auth.Operator || slices.Contains(a[name], owner) {
			targets = append(targets, name)
		}
	}
	return targets
}

// Rights say which owner may deliver to which target, in one snapshot of the store. All code that submits or sends
// an alert, or relies on a delivery instead, checks them.
type Rights struct {
	allowed Allowed
	tokens  map[string]*auth.Token // valid ones, by name
}

// ReadRights reads the rights of owners. The result grants other owners nothing.
func ReadRights(r store.Reader, allowed Allowed, now time.Time, owners ...string) (Rights, error) {
	x := Rights{allowed, map[string]*auth.Token{}}
	slices.Sort(owners)
	owners = slices.DeleteFunc(slices.Compact(owners), func(name string) bool {
		return name == "" || name == auth.Operator
	})
	if len(owners) == 0 {
		return x, nil
	}
	rows, err := r.Tokens(owners...)
	for _, t := range rows {
		if t.RevokedAt.IsZero() && !t.Expired(now) && t.Terms.Kind == auth.KindToken {
			x.tokens[t.Name] = t
		}
	}
	return x, err
}

// MayDeliver reports whether the threads and the rules of an owner may deliver to a target.
func (x Rights) MayDeliver(owner, target string) bool {
	tokens, ok := x.allowed[target]
	if owner == auth.Operator || !ok {
		return ok
	}
	t := x.tokens[owner]
	return t != nil && (t.Has(auth.PermissionAdmin) || slices.Contains(tokens, t.Name))
}

// Place returns the thread that sends an owner's alerts to a target. The id of a token's thread names the row of the
// token, so that deliveries of a revoked token do not resume when a new token gets its name.
func (x Rights) Place(owner, target string) (thread string) {
	t := x.tokens[owner]
	if owner == auth.Operator || t == nil {
		return ThreadID(target)
	}
	return SubscriberID(target, t.Name, rowMark(t))
}

// Row returns the mark of the row of an owner's token, "" for the operator.
func (x Rights) Row(owner string) string {
	if t := x.tokens[owner]; t != nil {
		return rowMark(t)
	}
	return ""
}

// rowMark returns the part of the id of a token's row that places name.
func rowMark(t *auth.Token) string { return t.ID()[:min(len(t.ID()), 16)] }

// Open reports whether the alerts that wait in the thread place may be sent. createdAt is when the thread was
// created; it decides if an older version created the thread, because such an id names no row.
func (x Rights) Open(place string, createdAt time.Time) bool {
	target, owner, row := reserved.AlertPlace(place)
	if !x.MayDeliver(owner, target) {
		return false
	}
	t := x.tokens[owner]
	switch {
	case t == nil: // the operator
		return true
	case row == "":
		return !createdAt.Before(t.CreatedAt)
	}
	return row == rowMark(t)
}

// same reports whether row still is the row of the owner's valid token, so that a rule made with it counts. changedAt
// is when the list of rules was changed; it decides if an older version stored the rule, without a row.
func (x Rights) same(owner, row string, changedAt time.Time) bool {
	t := x.tokens[owner]
	switch {
	case owner == auth.Operator:
		return true
	case t == nil:
		return false
	case row == "":
		return !changedAt.Before(t.CreatedAt)
	}
	return row == rowMark(t)
}

// refuseOwner returns a permanent error if an alert in a thread of a target must not be sent for the thread's owner.
// The thread of a token delivers to the target until the token is revoked, expires, or may not use the target any
// more.
func (a *Agent) refuseOwner(r store.Reader, t *mailroom.Thread, now time.Time) error {
	rights, err := ReadRights(r, Allowed{a.options.Name: a.options.Tokens}, now, t.Owner)
	if err != nil || rights.Open(t.ID, t.CreatedAt) {
		return err
	}
	return permanent("not sent: token %s may not deliver to target %s any more", t.Owner, a.options.Name)
}

// Subscriber is the part of the metadata of a subscriber's thread that names the subscriber.
type Subscriber struct {
	By string `json:"by"` // name of the token that subscribed, which may be the operator's
	// Token is the name of the row of a token that acts for By, such as the session of a browser, or the ID of the
	// operator's own token, which has no row. "": By itself, or a token of the operator that an older version did
	// not name, which [AdoptedMetadata] mends.
	Token string `json:"token,omitempty"`
	// CreatedAt is when the subscriber subscribed. A token that is newer only has the name of the token that
	// subscribed. The id of that token's row is not stored, because the previous version refuses unknown fields.
	CreatedAt time.Time `json:"created_at"`
}

// byOperator reports whether the subscription was made with the operator's own token, and not with one that acts for
// it.
func (s *Subscriber) byOperator() bool {
	return s.By == auth.Operator && (s.Token == "" || auth.OfOperator(s.Token))
}

// ended returns why a subscription has ended, "" if it has not: only admins subscribe, with a token that is
// valid. rows are the valid tokens, by the names of their rows.
func (s *Subscriber) ended(rows map[string]*auth.Token, operator *auth.Token) (why string) {
	mayRead := func(t *auth.Token) bool {
		return t != nil && t.Has(auth.PermissionAdmin) && !s.CreatedAt.Before(t.CreatedAt)
	}
	switch {
	case s.byOperator():
		if s.Token != "" && !operator.IsOperator(s.Token) {
			return "the operator's token that subscribed was replaced"
		}
	case s.Token != "": // no later session gets the same name, because names of sessions are unique
		if t := rows[s.Token]; t == nil || !t.Has(auth.PermissionAdmin) || t.Name != s.By {
			return "the session that subscribed has ended"
		}
	case s.By != "" && !mayRead(rows[s.By]):
		return "token " + s.By + " was revoked, has expired or is no admin"
	}
	return ""
}

// GoneSubscribers returns, by the ids of their threads, why subscribers get no further alerts. It leaves out
// subscribers that still get alerts. operator is the operator's present token, see [auth.NewChains].
func GoneSubscribers(
	r store.Reader, threads []*mailroom.Thread, operator *auth.Token, now time.Time,
) (map[string]string, error) {
	needed := false
	subscribers := make([]Subscriber, len(threads))
	for i, t := range threads {
		if json.Unmarshal(t.Metadata, &subscribers[i]) != nil {
			subscribers[i] = Subscriber{} // an operator may have changed the metadata; the target then refuses the thread
		}
		needed = needed || subscribers[i].By != "" && !subscribers[i].byOperator()
	}
	valid := map[string]*auth.Token{}
	if needed {
		rows, err := r.Tokens()
		if err != nil {
			return nil, err
		}
		names := map[int64]string{} // names of the rows; Valid returns a session or a link with the name of its token
		for _, t := range rows {
			names[t.Key] = t.Name
		}
		for _, t := range auth.NewChains(rows, operator, now).Valid() {
			valid[names[t.Key]] = t
		}
	}
	gone := map[string]string{}
	for i, t := range threads {
		why := subscribers[i].ended(valid, operator)
		if isGone(t) {
			why = "the subscriber does not exist any more"
		}
		if why != "" {
			gone[t.ID] = why
		}
	}
	return gone, nil
}

// subscriberRow returns the row with which the subscription in a thread ends, nil if the operator's own token
// subscribed. It returns an error if the subscription has ended.
func subscriberRow(r store.Reader, t *mailroom.Thread, operator *auth.Token, now time.Time) (*auth.Token, error) {
	gone, err := GoneSubscribers(r, []*mailroom.Thread{t}, operator, now)
	if err != nil {
		return nil, err
	}
	if why := gone[t.ID]; why != "" {
		return nil, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is no longer valid: %s", why)
	}
	var s Subscriber
	if json.Unmarshal(t.Metadata, &s) != nil || s.byOperator() || s.By == "" {
		return nil, nil
	}
	rows, err := r.Tokens(cmp.Or(s.Token, s.By))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// AdoptedMetadata returns the metadata of a subscriber's thread with the operator's present token, for a subscription
// of the operator that names no token, as older versions stored it. nil: the metadata needs no change. So
// subscriptions of the operator's browsers outlive an upgrade, and end when the token is replaced next.
func AdoptedMetadata(metadata json.RawMessage, operator *auth.Token) json.RawMessage {
	var s Subscriber
	var fields map[string]json.RawMessage // including the fields that the kind of the target adds
	if operator.ID() == "" || json.Unmarshal(metadata, &s) != nil || json.Unmarshal(metadata, &fields) != nil ||
		s.By != auth.Operator || s.Token != "" {
		return nil
	}
	token, err := json.Marshal(operator.ID())
	if err != nil {
		return nil // cannot fail: the value is plain ASCII
	}
	fields["token"] = token
	adopted, err := json.Marshal(fields)
	if err != nil {
		return nil // cannot fail: the value was read from JSON
	}
	return adopted
}

// ofSubscriber reports whether thread is the thread of a subscriber of the target to.
func ofSubscriber(to Spreader, thread string) bool {
	return strings.HasPrefix(thread, to.Subscribers())
}
