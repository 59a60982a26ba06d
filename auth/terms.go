package auth

import (
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/budget"
	"mailroom/internal/check"
)

// Kind says what a token is for.
type Kind string

const (
	KindToken   Kind = ""        // has a name and rights of its own
	KindLimited Kind = "limited" // a part of another token's rights, for a program or a page
	KindSession Kind = "session" // a session of a browser, whose secret is in a cookie
	KindLink    Kind = "link"    // can only be exchanged for a session, once
)

// Terms limit a token. The zero value limits nothing.
//
// A row with terms has no scopes of a token, so an older server that does not know terms grants
// nothing. A flag beside the scopes would have been ignored there, and the row would have had all
// rights of the token.
type Terms struct {
	Kind Kind `json:"kind,omitempty"`
	// For is the name that a token other than a KindToken acts for. It has the rights that this name's
	// token has at the time, as far as Scopes has them too, and none when that token is revoked. The
	// Token.Scopes of such a row are empty, so that a program that does not know Terms grants nothing.
	For    string       `json:"for,omitempty"`
	Scopes []Permission `json:"scopes,omitempty"`
	// Threads are the ids of the only threads that the token may use; none: all threads of For.
	Threads []string `json:"threads,omitempty"`
	// Run is the only run that the token may use; Threads then has the run's thread. "": no limit.
	Run       string    `json:"run,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: never
	// Client describes the program of a session to people.
	Client string `json:"client,omitempty"`
	// Source is the ID of the token that this one was derived from. A session has the source of the link that
	// made it. "" in rows of KindToken, and in those that versions before sources wrote.
	Source string `json:"source,omitempty"`
	// Via labels what is submitted with the token, as [mailroom.Origin.Via]: the gateway that holds it. "": the
	// protocol of the request does. A derived row has the label of the token for which it acts.
	Via string `json:"via,omitempty"`
	// Budget is what the runs in the threads of a KindToken may use in a day or a month.
	Budget budget.Limits `json:"budget,omitzero"`
}

const (
	// MaxTermThreads bounds Terms.Threads.
	MaxTermThreads = 100
	// MaxDerived bounds the tokens that act for one name.
	MaxDerived = 1000
	// derivedMark separates the two parts of the name of a token that acts for another one. No name of
	// a KindToken has it.
	derivedMark = "~"
)

// Stored returns the terms as every store keeps them: in UTC and whole microseconds, without empty lists. Call it
// when terms are made, so that the answer has the same times as a later read.
func (t Terms) Stored() Terms {
	ends := &t.Budget
	for _, at := range []*time.Time{&t.ExpiresAt, &ends.Day.Until, &ends.Month.Until, &ends.Run.Until} {
		*at = at.UTC().Truncate(time.Microsecond)
	}
	if len(t.Scopes) == 0 {
		t.Scopes = nil
	}
	if len(t.Threads) == 0 {
		t.Threads = nil
	}
	return t
}

// DerivedName returns the name of the row of a token that acts for the name of. id is unique among these rows.
func DerivedName(of, id string) string { return of + derivedMark + id }

// Expired reports whether the token has expired at now.
func (t *Token) Expired(now time.Time) bool {
	return !t.Terms.ExpiresAt.IsZero() && !t.Terms.ExpiresAt.After(now)
}

// Limited reports whether the token may use some threads only.
func (t *Token) Limited() bool { return len(t.Terms.Threads) > 0 || t.Terms.Run != "" }

// CheckDerived validates a token that acts for by, which must have its rights.
func (t *Token) CheckDerived(by *Token) error {
	terms := t.Terms
	switch {
	case by.ID() == "":
		return mailroom.Errorf(mailroom.CodeForbidden, "%s has no secret, so it cannot make tokens", by.Name)
	case by.Limited() || by.Terms.Kind == KindLink || by.Terms.Kind == KindLimited:
		return mailroom.Errorf(mailroom.CodeForbidden, "a limited token cannot make others")
	case len(terms.Scopes) == 0:
		return check.Invalid("scopes", "are missing: give at least one of read, submit, decide, metrics, admin", nil)
	case len(terms.Threads) > MaxTermThreads:
		return check.Invalid("threads", fmt.Sprintf("has more than %d threads", MaxTermThreads), nil)
	case terms.ExpiresAt.IsZero():
		return check.Invalid("expires_at", "is missing: such a token must expire", nil)
	case terms.Kind == KindLimited:
		if err := by.CheckEnd(terms.ExpiresAt); err != nil {
			return err
		}
	}
	for _, s := range terms.Scopes {
		switch {
		case !slices.Contains(Permissions(), s) || s == PermissionWork:
			return check.Invalid("scopes", "must be read, submit, decide, metrics or admin", string(s))
		case !by.Has(s):
			return check.Invalid("scopes", "has a scope that the token itself does not have", string(s))
		case t.Limited() && s != PermissionRead && s != PermissionSubmit && s != PermissionDecide:
			return check.Invalid("scopes", "of a token for some threads must be read, submit or decide", string(s))
		}
	}
	for _, id := range terms.Threads {
		if got, err := check.ThreadID(id); err != nil || got != id {
			return check.Invalid("threads", "must be ids of threads", id)
		}
	}
	return nil
}

// CheckEnd refuses to make a row that ends later than t. The zero time is never.
func (t *Token) CheckEnd(expires time.Time) error {
	end := t.Terms.ExpiresAt
	if end.IsZero() || !expires.IsZero() && !expires.After(end) {
		return nil
	}
	return check.Invalid("expires_at", "must be at most "+end.UTC().Format(time.RFC3339)+
		": the right that makes this token ends then", view(expires))
}

// view returns a time for an error, nil for never.
func view(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// Act returns the token with the rights of a row that acts for base: the rights of base that the
// row has too, within its terms.
func (t *Token) Act(base *Token) *Token {
	out := *base
	out.Key, out.Sum, out.UsedAt, out.Terms = t.Key, t.Sum, t.UsedAt, t.Terms
	out.Terms.Via = base.Terms.Via
	out.Scopes, out.Agents = nil, nil
	if base.SeesAll() {
		out.Scopes = append(out.Scopes, seesAll)
	}
	for _, s := range t.Terms.Scopes {
		if base.Has(s) {
			out.Scopes = append(out.Scopes, s)
		}
	}
	return &out
}

// MayEnd reports whether t may list and revoke a row. An admin may end any row, and a limited token only itself. A
// token, or a session of it, may end the rows that act for its name with no more scopes than it has itself. So a
// person can end the session of a lost phone, but not with a session that may only read.
func (t *Token) MayEnd(row *Token) bool {
	switch {
	case t.Has(PermissionAdmin):
		return true
	case row.Terms.Kind == KindToken || row.Terms.For != t.Name:
		return false
	case row.Sum == t.Sum:
		return true
	case t.Terms.Kind != KindToken && t.Terms.Kind != KindSession || t.Limited():
		return false
	}
	return !slices.ContainsFunc(row.Terms.Scopes, func(s Permission) bool { return !t.Has(s) })
}

// seesAll is in the scopes of a token that acts for an admin without being one.
const seesAll Permission = "sees all"

// SeesAll reports whether the token sees the threads of all owners, within its terms: it is an admin, or
// acts for one.
func (t *Token) SeesAll() bool { return t.Has(PermissionAdmin) || slices.Contains(t.Scopes, seesAll) }

// mayUse reports whether the terms include a thread.
func (t *Token) mayUse(thread string) bool {
	return !t.Limited() || slices.Contains(t.Terms.Threads, thread)
}

// MayCreate reports whether the terms let the token create a thread.
func (t *Token) MayCreate(thread string) bool { return t.Terms.Run == "" && t.mayUse(thread) }
