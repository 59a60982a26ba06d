package auth_test

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
)

func token(name, namespace string, scopes ...auth.Permission) *auth.Token {
	return &auth.Token{Name: name, Namespace: namespace, Scopes: scopes}
}

func TestATokenSeesItsOwnThreadsItsNamespaceAndAsAdminAll(t *testing.T) {
	ann, team, ops := token("ann", "", auth.PermissionRead), token("team", "team-", auth.PermissionRead),
		token("ops", "", auth.PermissionAdmin)
	for _, c := range []struct {
		id, owner string
		sees      []*auth.Token
	}{
		{"t", "ann", []*auth.Token{ann, ops}},
		{"t", "Ann", []*auth.Token{ops}},
		{"team-1", "ann", []*auth.Token{ann, team, ops}},
		{"team-", "bob", []*auth.Token{team, ops}},
		{"team", "bob", []*auth.Token{ops}},
		{"xteam-", "bob", []*auth.Token{ops}},
		{"other", "team", []*auth.Token{team, ops}},
		{"t", auth.Operator, []*auth.Token{ops}},
		{"t", "", nil}, // without an owner: invisible, even to admins
		{"team-1", "", nil},
	} {
		row := &mailroom.Thread{ID: c.id, Owner: c.owner}
		for _, who := range []*auth.Token{ann, team, ops, token("", "")} {
			want := false
			for _, s := range c.sees {
				want = want || s == who
			}
			if got := who.CanSee(row); got != want {
				t.Errorf("%q sees thread %q of %q: %t, want %t", who.Name, c.id, c.owner, got, want)
			}
		}
	}
}

func TestAScopeIsNeededUnlessTheTokenIsAdmins(t *testing.T) {
	for _, p := range auth.Permissions() {
		if err := token("x", "", p).Require(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if err := token("x", "", auth.PermissionAdmin).Require(p); err != nil {
			t.Errorf("admin without permission %s: %v", p, err)
		}
		var others []auth.Permission
		for _, o := range auth.Permissions() {
			if o != p && o != auth.PermissionAdmin {
				others = append(others, o)
			}
		}
		if err := token("x", "", others...).Require(p); mailroom.CodeOf(err) != mailroom.CodeForbidden ||
			!strings.Contains(err.Error(), string(p)) {
			t.Errorf("all but %s: %v, want forbidden, naming it", p, err)
		}
	}
}

func TestATokenThatBreaksARuleIsRefused(t *testing.T) {
	const read, work = auth.PermissionRead, auth.PermissionWork
	agents := token("x", "", work)
	agents.Agents = []string{"coder"}
	idle := token("x", "", read)
	idle.Agents = agents.Agents
	for name, c := range map[string]struct {
		t     *auth.Token
		field string // "" means valid
	}{
		"plain":                        {token("Ann_1.b-c@d", "", read), ""},
		"the longest name":             {token(strings.Repeat("x", 64), "", read), ""},
		"a namespace":                  {token("x", "team-", read, auth.PermissionSubmit), ""},
		"all scopes":                   {token("x", "", auth.Permissions()...), ""},
		"agents to work for":           {agents, ""},
		"no name":                      {token("", "", read), "name"},
		"too long a name":              {token(strings.Repeat("x", 65), "", read), "name"},
		"a blank":                      {token("a b", "", read), "name"},
		"a slash":                      {token("a/b", "", read), "name"},
		"a name that is no path":       {token("..", "", read), "name"},
		"letters of elsewhere":         {token("änn", "", read), "name"},
		"the operator's name":          {token(auth.Operator, "", read), "name"},
		"no scopes":                    {token("x", ""), "scopes"},
		"an unknown scope":             {token("x", "", "fly"), "scopes"},
		"a namespace that begins none": {token("x", "a/b", read), "namespace"},
		"a namespace in blanks":        {token("x", " a", read), "namespace"},
		"a worker's namespace":         {token("x", "a", work), "namespace"},
		"an admin's namespace":         {token("x", "a", auth.PermissionAdmin), "namespace"},
		"agents without work":          {idle, "agents"},
	} {
		err := c.t.Check()
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.field != "" && (mailroom.CodeOf(err) != mailroom.CodeInvalid || !strings.HasPrefix(err.Error(), c.field+":")):
			t.Errorf("%s: %v, want %s to be invalid", name, err, c.field)
		}
	}
}

func TestInForeignNamespace(t *testing.T) {
	team, mate := token("team", "team-", auth.PermissionSubmit), token("mate", "team-m", auth.PermissionSubmit)
	watch, gone := token("watch", "w-", auth.PermissionRead), token("gone", "g-", auth.PermissionSubmit)
	gone.RevokedAt = time.Unix(1, 0)
	now, late := time.Unix(100, 0), token("late", "l-", auth.PermissionSubmit)
	late.Terms.ExpiresAt = now
	ids, ann := token("ids", "0", auth.PermissionSubmit), token("ann", "", auth.PermissionSubmit)
	ops := token("ops", "", auth.PermissionAdmin)
	all := []*auth.Token{team, mate, watch, gone, late, ids, ann, ops}
	for _, c := range []struct {
		who  *auth.Token
		id   string
		want bool
	}{
		{ann, "team-1", true},
		{ann, "team", false},
		{ann, "w-1", false}, // this token creates no threads there
		{ann, "g-1", false},
		{ann, "l-1", false}, // of a token that has ended
		{ann, "0", true},
		{ann, "019ab0de-0000-7000-8000-000000000000", false}, // an id of the server
		{team, "team-1", false},
		{team, "team-m1", false},
		{mate, "team-m1", false},
		{mate, "team-1", true},
		{auth.RunToken("team"), "team-1", false}, // of its runs
		{auth.RunToken("ann"), "team-1", true},
		{auth.RunToken("ops"), "team-1", false},
		{ops, "team-1", false},
		{auth.RunToken(auth.Operator), "team-1", false},
	} {
		if got := c.who.InForeignNamespace(c.id, all, now); got != c.want {
			t.Errorf("%s squats %q: %t, want %t", c.who.Name, c.id, got, c.want)
		}
	}
}

// Names before "$" name gates and claims in the index of due threads.
func TestATokenDeclaresNoReservedAgent(t *testing.T) {
	for name, ok := range map[string]bool{
		"echo": true, "Ünïcode": true, "_x": true, "": false, "!worker": false, "#gate": false, " @ server": false,
	} {
		declares := token("x", "", auth.PermissionWork)
		declares.Agents = []string{name}
		if err := declares.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
