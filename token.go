package mailroom

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Operator is the name of who runs the server. It owns what nobody else does and
// may do everything; no token can be made under this name.
const Operator = "admin"

// Permission is one thing that the holder of a token may do: its scope.
type Permission string

const (
	PermissionRead   Permission = "read"   // look at threads, runs, tickets, and follow them
	PermissionSubmit Permission = "submit" // send messages, and change, stop or retry what became of them
	PermissionDecide Permission = "decide" // answer tickets
	PermissionWork   Permission = "work"   // run agents for all threads, from another process
	// PermissionMeasure reads the metrics, which count the work of all tokens.
	PermissionMeasure Permission = "metrics"
	PermissionAdmin   Permission = "admin" // everything, in all threads
)

// Permissions are all there are, the least first.
func Permissions() []Permission {
	return []Permission{PermissionRead, PermissionSubmit, PermissionDecide, PermissionWork, PermissionMeasure, PermissionAdmin}
}

// Token is the row of an account: a name, and what the holder of its secret may
// do. The secret itself is kept nowhere. A name has one token at a time; the
// next one under the same name owns the same threads.
type Token struct {
	Key       int64  // the store's own; 0 until written
	Name      string // owns the threads that it makes, and is the sender of its messages
	Sum       string // SHA-256 of the secret, in hex
	Scopes    []Permission
	Namespace string   // threads whose id begins with it are visible; "" adds none
	Agents    []string // those that it may work for; none: all that the server does not run itself
	Quotas    Quotas   // of its name, where they differ from the server's
	Used      Use      // what its name has, summed up with the rows that say so
	CreatedAt time.Time
	UsedAt    time.Time // the last time, to the minute; zero: never
	RevokedAt time.Time // zero: it is good
}

// MaxTokenName bounds names of tokens, in bytes.
const MaxTokenName = 64

// Check refuses a Token that breaks a rule by itself.
func (t *Token) Check() error {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-@", r))
	}
	switch {
	case t.Name == "" || len(t.Name) > MaxTokenName || strings.ContainsFunc(t.Name, func(r rune) bool { return !plain(r) }), t.Name == ".", t.Name == "..":
		return invalid("name", fmt.Sprintf("must be 1 to %d letters, digits or any of . _ - @", MaxTokenName), t.Name)
	case t.Name == Operator:
		return invalid("name", "is the name of who runs the server", t.Name)
	case len(t.Scopes) == 0:
		return invalid("scopes", "are missing: give at least one of read, submit, decide, work, metrics, admin", nil)
	case t.Namespace != "" && t.Has(PermissionWork):
		return invalid("namespace", "does not go with the scope work: a worker gets the runs of all threads", t.Namespace)
	case len(t.Agents) > 0 && !t.Has(PermissionWork):
		return invalid("agents", "go with the scope work", t.Agents)
	}
	for _, s := range t.Scopes {
		if !slices.Contains(Permissions(), s) {
			return invalid("scopes", "must be read, submit, decide, work, metrics or admin", string(s))
		}
	}
	if err := t.Quotas.Check(); err != nil {
		return err
	}
	if t.Namespace != "" {
		if id, err := CheckThreadID(t.Namespace); err != nil || id != t.Namespace {
			return invalid("namespace", "must be the beginning of a thread id", t.Namespace)
		}
	}
	return nil
}

// DeclaredAgents are the agents that tokens which are good name for their workers: runs
// for them wait until such a worker comes.
func DeclaredAgents(tokens []*Token) (agents []string) {
	for _, t := range tokens {
		if t.RevokedAt.IsZero() && t.Has(PermissionWork) {
			agents = append(agents, t.Agents...)
		}
	}
	return agents
}

// RunToken is the token that what a thread's runs do is judged by: they may do
// what its owner may in threads of its own.
func RunToken(owner string) *Token {
	t := &Token{Name: owner, Scopes: []Permission{PermissionSubmit}}
	if owner == Operator {
		t.Scopes = []Permission{PermissionAdmin}
	}
	return t
}

// Has reports whether the token has the scope p; admin has all.
func (t *Token) Has(p Permission) bool {
	return slices.Contains(t.Scopes, p) || slices.Contains(t.Scopes, PermissionAdmin)
}

// Require refuses with Forbidden unless the token has the scope p.
func (t *Token) Require(p Permission) error {
	if t.Has(p) {
		return nil
	}
	return Errorf(CodeForbidden, "this needs a token with the scope %s", p)
}

// CanSee reports whether the thread is visible to the token: to its owner, in its
// namespace, and to admins. A thread whose owner is unknown is visible to nobody.
func (t *Token) CanSee(thread *Thread) bool {
	switch {
	case thread.Owner == "" || !thread.DeletedAt.IsZero():
		return false
	case t.Has(PermissionAdmin):
		return true
	}
	return thread.Owner == t.Name || t.Namespace != "" && strings.HasPrefix(thread.ID, t.Namespace)
}

// exists reports whether the thread was there before, or was made by this
// transaction.
func (t *ThreadState) exists() bool { return t.Key != 0 || !t.CreatedAt.IsZero() }

// CheckVisibleTo refuses who may not know of the thread, in the words for one that is not
// there. nil is the server itself.
func (t *ThreadState) CheckVisibleTo(who *Token) error {
	if t.CreatedAt.IsZero() || !t.DeletedAt.IsZero() || who != nil && !who.CanSee(&t.Thread) {
		return errNoThread(t.ID)
	}
	return nil
}

func errNoThread(id string) error { return Errorf(CodeNotFound, "no thread %q", id) }

// checkReachable refuses a submit to a thread that its sender may not know of, as if
// there were none. The end of a run is told to its own owner's threads and, as
// only the operator's runs go to the threads of others, to the operator's: a
// thread that somebody else made under the id of one that was deleted is neither.
// A thread that is not there may be reserved.
func (t *ThreadState) checkReachable(in *Submit) error {
	if !t.exists() {
		return in.checkCreate(t.ID)
	}
	seen := in.By == nil || in.By.CanSee(&t.Thread)
	if in.Origin.Via == "wake" {
		seen = t.Owner == in.Owner || t.Owner == Operator
	}
	if seen {
		return nil
	}
	return errNoThread(t.ID)
}

// InForeignNamespace reports whether a thread made by this token under this id would lie in a
// namespace of others alone, who make threads there: a namespace that is only looked
// at is for anybody to fill. Ids in the form that the server gives belong to none.
func (t *Token) InForeignNamespace(id string, tokens []*Token) bool {
	if t.Name == Operator || t.Has(PermissionAdmin) || isServerID(id) {
		return false
	}
	squats := false
	for _, other := range tokens {
		within := other.Namespace != "" && strings.HasPrefix(id, other.Namespace)
		switch {
		case !other.RevokedAt.IsZero():
		case other.Name == t.Name && (within || other.Has(PermissionAdmin)):
			return false
		case within && other.Has(PermissionSubmit):
			squats = true
		}
	}
	return squats
}

// isServerID reports whether an id is a UUID in its usual form.
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

// checkCreate refuses a thread that is for the operator to make, or for others.
func (in *Submit) checkCreate(id string) error {
	if in.By == nil || in.By.Name == Operator || in.By.Has(PermissionAdmin) {
		return nil
	}
	if in.ForeignNamespace {
		return errNoThread(id)
	}
	for _, begin := range in.Reserved {
		if strings.HasPrefix(id, begin) {
			return Errorf(CodeForbidden, "thread %q is not there, and ids that begin with %q are for the operator to make", id, begin)
		}
	}
	return nil
}
