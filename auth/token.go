// Package auth has tokens: their permissions, what they may see, and the quotas of their owners.
package auth

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
)

// Operator is the name of the server's operator. It owns everything that no token owns and has all
// permissions. No token can have this name.
const Operator = "admin"

// Permission is a scope of a token.
type Permission string

const (
	PermissionRead   Permission = "read"   // read and follow threads, runs and tickets
	PermissionSubmit Permission = "submit" // submit messages; edit, stop and retry them
	PermissionDecide Permission = "decide" // decide tickets
	PermissionWork   Permission = "work"   // run agents for all threads, as a remote worker
	// PermissionMeasure allows reading the metrics, which cover the work of all tokens.
	PermissionMeasure Permission = "metrics"
	PermissionAdmin   Permission = "admin" // everything, on all threads
)

// Permissions returns all permissions, the weakest first.
func Permissions() []Permission {
	return []Permission{PermissionRead, PermissionSubmit, PermissionDecide, PermissionWork, PermissionMeasure,
		PermissionAdmin}
}

// Token is the row of a token: a name and the permissions of the holder of its secret. The secret
// itself is not stored. A name has one token at a time; a new token with the same name owns the
// same threads.
type Token struct {
	Key       int64  // set by the store; 0 until written
	Name      string // owner of the threads it creates and sender of its messages
	Sum       string // SHA-256 of the secret, in hex
	Scopes    []Permission
	Namespace string   // prefix of the ids of visible threads; "": own threads only
	Agents    []string // agents it may work for; none: all that the server does not run
	Quotas    Quotas   // differences from the server's default quotas
	Used      Use      // current use of the name
	CreatedAt time.Time
	UsedAt    time.Time // last use, to the minute; zero: never
	RevokedAt time.Time // zero: it is valid
	Terms     Terms

	Newer string `json:"-"` // see mailroom.Run
}

// MaxTokenName bounds the length of token names in bytes.
const MaxTokenName = 64

// Check validates t.
func (t *Token) Check() error {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-@", r))
	}
	switch {
	case t.Name == "" || len(t.Name) > MaxTokenName || strings.ContainsFunc(t.Name, func(r rune) bool {
		return !plain(r)
	}), t.Name == ".", t.Name == "..":
		return check.Invalid("name", fmt.Sprintf("must be 1 to %d letters, digits or any of . _ - @", MaxTokenName), t.Name)
	case t.Name == Operator:
		return check.Invalid("name", "is reserved for the operator", t.Name)
	case len(t.Scopes) == 0:
		return check.Invalid("scopes", "are missing: give at least one of read, submit, decide, work, metrics, admin", nil)
	case t.Namespace != "" && t.Has(PermissionWork):
		return check.Invalid("namespace", "cannot be combined with the scope work: a worker gets the runs of all threads",
			t.Namespace)
	case t.Terms.ExpiresAt.UTC().Year() > 9999: // a time in JSON cannot have such a year
		return check.Invalid("expires_at", "is not a time up to the year 9999, in UTC", nil)
	case !validVia(t.Terms.Via):
		return check.Invalid("via",
			fmt.Sprintf(
				"must be 1 to %d lower-case letters, digits or any of . _ -, and no name that the server uses itself, such as user, run or mcp", MaxTokenName), t.Terms.Via)
	case len(t.Agents) > 0 && !t.Has(PermissionWork):
		return check.Invalid("agents", "require the scope work", t.Agents)
	}
	for _, a := range t.Agents {
		if a < "$" { // a store has other names there, see store.GatePrefix
			return check.Invalid("agents", "must not begin with any of ! \" # or a space", a)
		}
	}
	for _, s := range t.Scopes {
		if !slices.Contains(Permissions(), s) {
			return check.Invalid("scopes", "must be read, submit, decide, work, metrics or admin", string(s))
		}
	}
	if err := t.Quotas.Check(); err != nil {
		return err
	}
	if t.Namespace != "" {
		if id, err := check.ThreadID(t.Namespace); err != nil || id != t.Namespace {
			return check.Invalid("namespace", "must be a prefix of a thread id", t.Namespace)
		}
	}
	return nil
}

// validVia reports whether a token may label what it submits so; "" is no label. A label has no colon, because
// channels have one, and no capital letter, so that it does not look like another.
func validVia(label string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	return len(label) <= MaxTokenName && !strings.ContainsFunc(label, odd) && !reserved.IsVia(label)
}

// DeclaredAgents returns the agents that valid worker tokens name. Runs of these agents wait for
// such a worker.
func DeclaredAgents(tokens []*Token, now time.Time) (agents []string) {
	for _, t := range tokens {
		if t.RevokedAt.IsZero() && !t.Expired(now) && t.Has(PermissionWork) {
			agents = append(agents, t.Agents...)
		}
	}
	return agents
}

// RunToken returns the token under which the runs of an owner's threads act: with the permissions
// that the owner has on its own threads.
//
// A run has the rights of the owner of its thread, whichever agent runs. So an agent that is talked
// into something reaches no further than the person who talks to it.
func RunToken(owner string) *Token {
	t := &Token{Name: owner, Scopes: []Permission{PermissionSubmit}}
	if owner == Operator {
		t.Scopes = []Permission{PermissionAdmin}
	}
	return t
}

// Has reports whether the token has the permission p. PermissionAdmin includes all.
func (t *Token) Has(p Permission) bool {
	return slices.Contains(t.Scopes, p) || slices.Contains(t.Scopes, PermissionAdmin)
}

// Require returns CodeForbidden unless the token has the permission p.
func (t *Token) Require(p Permission) error {
	if t.Has(p) {
		return nil
	}
	return mailroom.Errorf(mailroom.CodeForbidden, "this requires a token with the scope %s", p)
}

// CanSee reports whether the token may see the thread: as its owner, by its namespace, or as an
// admin, within its terms. A deleted thread and one without an owner are invisible to every token. A token that
// created the thread of the audit log, at an older version, does not see it either; an admin does, and can delete it.
func (t *Token) CanSee(thread *mailroom.Thread) bool {
	switch {
	case thread.Owner == "" || !thread.DeletedAt.IsZero() || !t.mayUse(thread.ID):
		return false
	case reserved.Prefix(thread.ID) == reserved.Audit:
		return t.Has(PermissionAdmin)
	case t.SeesAll():
		return true
	}
	return thread.Owner == t.Name || t.Namespace != "" && strings.HasPrefix(thread.ID, t.Namespace)
}

// InForeignNamespace reports whether a thread created by t with this id would lie in a namespace that only other
// tokens, with permission to submit, have. Read-only namespaces reserve nothing. UUIDs, which the server uses as
// ids, are in no namespace.
func (t *Token) InForeignNamespace(id string, tokens []*Token, now time.Time) bool {
	if t.Has(PermissionAdmin) || isServerID(id) {
		return false
	}
	squats := false
	for _, other := range tokens {
		within := other.Namespace != "" && strings.HasPrefix(id, other.Namespace)
		switch {
		case !other.RevokedAt.IsZero() || other.Expired(now):
		case other.Name == t.Name && (within || other.Has(PermissionAdmin)):
			return false
		case within && other.Has(PermissionSubmit):
			squats = true
		}
	}
	return squats
}

// isServerID reports whether id is a UUID in canonical form.
func isServerID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range []byte(id) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return false
		}
	}
	return true
}
