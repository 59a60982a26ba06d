package auth_test

import (
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
)

func TestNoTokenSeesADeletedThread(t *testing.T) {
	row := &mailroom.Thread{ID: "team-1", Owner: "ann", DeletedAt: noon}
	for _, who := range []*auth.Token{base("ann", "a"), token("team", "team-", auth.PermissionRead),
		token("ops", "", auth.PermissionAdmin)} {
		if who.CanSee(row) {
			t.Errorf("%s sees a deleted thread", who.Name)
		}
	}
}

// A link, a limited token, and a session for some threads make nothing, whichever layer asks.
func TestOnlyTokensAndTheirSessionsMakeTokens(t *testing.T) {
	ann := base("ann", "a")
	change := func(t *auth.Token, terms func(*auth.Terms)) *auth.Token {
		terms(&t.Terms)
		return t
	}
	acts := func(kind auth.Kind) *auth.Token { return below(ann, kind, string(kind), 1).Act(ann) }
	for name, tc := range map[string]struct {
		by   *auth.Token
		code mailroom.Code
	}{
		"a token":         {ann, ""},
		"its session":     {acts(auth.KindSession), ""},
		"a link":          {acts(auth.KindLink), mailroom.CodeForbidden},
		"a limited token": {acts(auth.KindLimited), mailroom.CodeForbidden},
		"a session for some threads": {change(acts(auth.KindSession), func(t *auth.Terms) {
			t.Threads = []string{"t"}
		}), mailroom.CodeForbidden},
		"a session for one run": {change(acts(auth.KindSession), func(t *auth.Terms) {
			t.Run = "r"
		}), mailroom.CodeForbidden},
		"a token without a secret": {auth.RunToken("ann"), mailroom.CodeForbidden},
	} {
		made := below(ann, auth.KindLink, "made", 1)
		if err := made.CheckDerived(tc.by); mailroom.CodeOf(err) != tc.code {
			t.Errorf("by %s: %v, want code %q", name, err, tc.code)
		}
	}
}

func TestATokenForOneRunCreatesNoThread(t *testing.T) {
	who := token("ann", "", auth.PermissionSubmit)
	who.Terms.Threads = []string{"t"}
	if !who.MayCreate("t") || who.MayCreate("u") {
		t.Error("a token for some threads creates these only")
	}
	who.Terms.Run = "r"
	if who.MayCreate("t") {
		t.Error("a token for one run creates the thread of its run again")
	}
}

// The token may have lost a scope since the row was derived.
func TestARowHasNoScopeThatItsTokenLost(t *testing.T) {
	ann := base("ann", "a")
	row := below(ann, auth.KindLimited, "limited", 1)
	row.Terms.Scopes = []auth.Permission{auth.PermissionRead, auth.PermissionDecide}
	if got := row.Act(ann).Scopes; !slices.Equal(got, []auth.Permission{auth.PermissionRead}) {
		t.Errorf("acts with the scopes %q, want read", got)
	}
}

func TestATokenThatHasEndedDeclaresNoAgents(t *testing.T) {
	live, gone, late := token("a", "", auth.PermissionWork), token("b", "", auth.PermissionWork),
		token("c", "", auth.PermissionWork)
	live.Agents, gone.Agents, gone.RevokedAt = []string{"coder"}, []string{"tester"}, noon
	live.Terms.ExpiresAt = noon.Add(time.Second)
	late.Agents, late.Terms.ExpiresAt = []string{"writer"}, noon
	if got := auth.DeclaredAgents([]*auth.Token{live, gone, late}, noon); !slices.Equal(got, []string{"coder"}) {
		t.Errorf("declared are %q, want coder", got)
	}
}
