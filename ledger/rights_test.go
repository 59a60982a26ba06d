package ledger_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
)

// right is a token as the model has it: it is valid while nothing has ended it or one that it was derived from, and
// until the first of their ends.
type right struct {
	sum, row string // secret and name of the row
	name     string // that it acts for
	kind     auth.Kind
	scopes   []auth.Permission
	source   *right // nil: a token
	// namespace is that of a token, and threads are the only ones that a limited token may use; nil: no limit.
	namespace string
	threads   []string
	end       int // hours from the begin of the history; 0: never
	ended     bool
	token     *auth.Token // as a server has it since the right was made, also once it has ended
}

// isOperator reports whether the right is the operator's token, which has no row.
func (r *right) isOperator() bool { return r.name == auth.Operator && r.kind == auth.KindToken }

func (r *right) valid(hour int) bool {
	for ; r != nil; r = r.source {
		if r.ended || r.end != 0 && r.end <= hour {
			return false
		}
	}
	return true
}

// history is a random history of tokens at two servers on one store, and the model of it.
type history struct {
	*rapid.T
	servers  [2]*ledger.Ledger
	prefix   string // of names
	begin    time.Time
	operator *auth.Token
	rights   []*right
	sums     int
}

func (h *history) server() *ledger.Ledger { return h.servers[rapid.IntRange(0, 1).Draw(h.T, "server")] }

func (h *history) secret() string { h.sums++; return fmt.Sprint(h.prefix, "secret", h.sums) }

// at returns the middle of an hour, so that no end is near the time of a look.
func (h *history) at(hour int) time.Time {
	return h.begin.Add(time.Duration(hour)*time.Hour - 30*time.Minute)
}

func (h *history) someScopes() []auth.Permission {
	return rapid.SampledFrom([][]auth.Permission{
		{auth.PermissionRead}, {auth.PermissionRead, auth.PermissionSubmit}, {auth.PermissionSubmit, auth.PermissionDecide},
		{auth.PermissionAdmin},
	}).Draw(h.T, "scopes")
}

func (h *history) some() *right {
	if len(h.rights) == 0 {
		return nil
	}
	return h.rights[rapid.IntRange(0, len(h.rights)-1).Draw(h.T, "right")]
}

func (h *history) want(what string, err error, code mailroom.Code) bool {
	h.Helper()
	if mailroom.CodeOf(err) != code {
		h.Fatalf("%s: got error %v, want code %q", what, err, code)
	}
	return err == nil
}

func (h *history) holder(name string) *right {
	i := slices.IndexFunc(h.rights, func(r *right) bool { return r.name == name && r.kind == auth.KindToken && !r.ended })
	if i < 0 {
		return nil
	}
	return h.rights[i]
}

func (h *history) create() {
	r := &right{sum: h.secret(), name: h.prefix + rapid.SampledFrom([]string{"ann", "bob"}).Draw(h.T, "name"),
		scopes: h.someScopes(), end: rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(h.T, "end")}
	if !slices.Contains(r.scopes, auth.PermissionAdmin) { // an admin has none
		r.namespace = rapid.SampledFrom([]string{"", h.prefix + "shared-"}).Draw(h.T, "namespace")
	}
	row := auth.Token{Name: r.name, Sum: r.sum, Scopes: r.scopes, Namespace: r.namespace}
	if r.end != 0 {
		row.Terms.ExpiresAt = h.at(r.end)
	}
	code := mailroom.Code("")
	if h.holder(r.name) != nil {
		code = mailroom.CodeConflict
	}
	if _, err := h.server().Accounts().CreateToken(context.Background(), row); h.want("create", err, code) {
		r.row = r.name
		h.rights = append(h.rights, r)
	}
}

// derive makes a limited token or a link with a right as a server knew it, which may have ended since.
func (h *history) derive(kind auth.Kind) {
	by := h.some()
	if by == nil || by.token == nil || by.isOperator() && by.ended { // servers know the operator's token by themselves
		return
	}
	r := &right{sum: h.secret(), name: by.name, kind: kind, scopes: h.someScopes(), source: by,
		end: rapid.IntRange(1, 5).Draw(h.T, "end")}
	if kind == auth.KindLimited {
		r.threads = rapid.SampledFrom([][]string{nil, {h.prefix + "thread of " + by.name},
			{h.prefix + "shared-x", h.prefix + "foreign"}}).Draw(h.T, "threads")
	}
	in := auth.Token{Sum: r.sum, Terms: auth.Terms{Kind: kind, Scopes: r.scopes, Threads: r.threads,
		ExpiresAt: h.at(r.end)}}
	end := by.lastEnd()
	code := mailroom.Code("")
	switch {
	case by.kind == auth.KindLink || by.kind == auth.KindLimited:
		code = mailroom.CodeForbidden
	case kind == auth.KindLimited && end != 0 && end < r.end, len(r.threads) > 0 &&
		slices.Contains(r.scopes, auth.PermissionAdmin), slices.ContainsFunc(r.scopes, func(s auth.Permission) bool {
		return !by.token.Has(s)
	}):
		code = mailroom.CodeInvalid
	case !by.valid(0):
		code = mailroom.CodeUnauthenticated
	}
	made, err := h.server().Accounts().DeriveToken(context.Background(), in, by.token)
	if h.want("derive", err, code) {
		r.row = made.Name
		h.rights = append(h.rights, r)
	}
}

// sees reports whether the model lets a right see a thread: within its own limit, an admin and what acts for one any,
// others those of their name and of the namespace of their token.
func (r *right) sees(t *mailroom.Thread) bool {
	if len(r.threads) > 0 && !slices.Contains(r.threads, t.ID) {
		return false
	}
	base := r
	for base.source != nil {
		base = base.source
	}
	return slices.Contains(base.scopes, auth.PermissionAdmin) || t.Owner == r.name ||
		base.namespace != "" && strings.HasPrefix(t.ID, base.namespace)
}

// seen returns which of some threads a right sees.
func (h *history) seen(name string, sees func(*mailroom.Thread) bool) (ids []string) {
	for id, owner := range map[string]string{"thread of " + name: name, "shared-x": h.prefix + "zoe",
		"foreign": h.prefix + "zoe"} {
		if sees(&mailroom.Thread{ID: h.prefix + id, Owner: owner}) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// lastEnd returns the first end of a right and what it was derived from.
func (r *right) lastEnd() (end int) {
	for ; r != nil; r = r.source {
		if r.end != 0 && (end == 0 || r.end < end) {
			end = r.end
		}
	}
	return end
}

func (h *history) signIn() {
	link := h.some()
	if link == nil {
		return
	}
	r := &right{sum: h.secret(), name: link.name, kind: auth.KindSession, scopes: link.scopes, source: link.source,
		end: rapid.IntRange(1, 5).Draw(h.T, "end")}
	code := mailroom.Code("")
	if link.kind != auth.KindLink || !link.valid(0) {
		code = mailroom.CodeUnauthenticated
	}
	made, err := h.server().Accounts().SpendLink(context.Background(), link.sum,
		auth.Token{Sum: r.sum, Terms: auth.Terms{ExpiresAt: h.at(r.end)}})
	if h.want("sign in", err, code) {
		link.ended, r.row = true, made.Name
		h.rights = append(h.rights, r)
	}
}

func (h *history) signOut() {
	r := h.some()
	if r == nil || r.kind != auth.KindSession {
		return
	}
	h.want("sign out", h.server().Accounts().DropSession(context.Background(), r.sum), "")
	r.ended = true
}

func (h *history) revoke() {
	r := h.some()
	if r == nil || r.isOperator() {
		return
	}
	err := h.server().Accounts().RevokeToken(context.Background(), r.row)
	if r.kind != auth.KindToken && mailroom.CodeOf(err) == mailroom.CodeNotFound { // its row went with another one
		if r.valid(0) {
			h.Fatalf("the row of the valid %s is gone", r.row)
		}
		return
	}
	h.want("revoke", err, "")
	if r.kind == auth.KindToken { // the one that has the name now
		if r = h.holder(r.name); r == nil {
			return
		}
	}
	r.ended = true
}

// replaceOperator gives the operator another secret, as a restart with another one does.
func (h *history) replaceOperator() {
	for _, r := range h.rights {
		if r.isOperator() {
			r.ended = true
		}
	}
	r := &right{sum: h.secret(), row: "none", name: auth.Operator, scopes: []auth.Permission{auth.PermissionAdmin}}
	h.operator = auth.RunToken(auth.Operator)
	h.operator.Sum, r.token = r.sum, h.operator
	h.want("replace the operator", h.server().Accounts().EndReplaced(context.Background(), h.operator), "")
	h.rights = append(h.rights, r)
}

// write writes with each right that has a row, as a request that was admitted when the right was made.
func (h *history) write() {
	r := h.some()
	if r == nil || r.isOperator() {
		return
	}
	row := &auth.Token{Name: r.row, Sum: r.sum}
	ctx := ledger.WithCaller(context.Background(), func() ledger.Caller { return ledger.RowOf(row) })
	code := mailroom.Code("")
	if !r.valid(0) {
		code = mailroom.CodeUnauthenticated
	}
	_, err := h.server().Submit(ctx, submitAs(r.name, h.prefix+"thread of "+r.name, "x"))
	h.want("write of "+r.row, err, code)
}

// check compares who has which rights, now and at later times, at both servers.
func (h *history) check() {
	for _, s := range h.servers {
		rows, err := s.Accounts().Tokens(context.Background())
		if err != nil {
			h.Fatal(err)
		}
		rows = slices.DeleteFunc(rows, func(t *auth.Token) bool { // those of other histories
			return !strings.HasPrefix(t.Name, h.prefix) && t.Terms.For != auth.Operator
		})
		for _, hour := range []int{0, 1, 2, 3, 4, 5, 6} {
			got, want := map[string]string{}, map[string]string{}
			for _, t := range auth.NewChains(rows, h.operator, h.at(hour)).Valid() {
				got[t.Sum] = fmt.Sprint(t.Name, t.Has(auth.PermissionRead), t.Has(auth.PermissionSubmit),
					t.Has(auth.PermissionDecide), t.Has(auth.PermissionAdmin), h.seen(t.Name, t.CanSee))
				for _, r := range h.rights {
					if r.sum == t.Sum && r.token == nil {
						r.token = t
					}
				}
			}
			for _, r := range h.rights {
				if r.valid(hour) && !r.isOperator() {
					has := (&auth.Token{Scopes: r.scopes}).Has
					want[r.sum] = fmt.Sprint(r.name, has(auth.PermissionRead), has(auth.PermissionSubmit), has(auth.PermissionDecide),
						has(auth.PermissionAdmin), h.seen(r.name, r.sees))
				}
			}
			if !maps.Equal(got, want) {
				h.Fatalf("after %d hours: got the rights %v, want %v", hour, got, want)
			}
		}
	}
}

// TestRandomHistoriesOfRights creates, derives, spends, ends and replaces tokens, with names that are used again, at
// two servers on one store. The model says who has which rights: each ends with what it was derived from, and none
// comes back. The rules are the same on each store, and a database takes six times as long: it gets a part of the
// histories.
func TestRandomHistoriesOfRights(t *testing.T) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			var servers [2]*ledger.Ledger
			for i := range servers {
				rows := must(s.open())(t)
				t.Cleanup(func() {
					if err := rows.Close(); err != nil {
						t.Error(err)
					}
				})
				servers[i] = open(t, rows, ledger.Options{}).Ledger
			}
			n := 0
			rapid.Check(t, func(t *rapid.T) {
				if s.name != "memory" && rapid.Uint32().Draw(t, "left out unless 0")%4 > 0 { // drawn, so that a failure shrinks
					return
				}
				n++
				h := &history{T: t, servers: servers, prefix: fmt.Sprintf("h%d-", n), begin: time.Now().Truncate(time.Microsecond)}
				h.replaceOperator()
				step := func(f func()) func(*rapid.T) { return func(*rapid.T) { f() } }
				t.Repeat(map[string]func(*rapid.T){
					"": func(*rapid.T) {
						h.check()
					}, "create": step(h.create), "create again": step(h.create), "sign in": step(h.signIn),
					"sign in again": step(h.signIn),
					"limit":         func(*rapid.T) { h.derive(auth.KindLimited) }, "link": func(*rapid.T) { h.derive(auth.KindLink) },
					"revoke": step(h.revoke), "sign out": step(h.signOut), "replace the operator": step(h.replaceOperator),
					"write": step(h.write), "write again": step(h.write),
				})
			})
		})
	}
}
