package mailroom_test

import (
	"strings"
	"testing"
	"time"

	"mailroom"
)

func token(name, namespace string, scopes ...mailroom.Permission) *mailroom.Token {
	return &mailroom.Token{Name: name, Namespace: namespace, Scopes: scopes}
}

func TestATokenSeesItsOwnItsNamespaceAndAsAdminAll(t *testing.T) {
	ann, team, ops := token("ann", "", mailroom.PermissionRead), token("team", "team-", mailroom.PermissionRead), token("ops", "", mailroom.PermissionAdmin)
	for _, c := range []struct {
		id, owner string
		sees      []*mailroom.Token
	}{
		{"t", "ann", []*mailroom.Token{ann, ops}},
		{"t", "Ann", []*mailroom.Token{ops}},
		{"team-1", "ann", []*mailroom.Token{ann, team, ops}},
		{"team-", "bob", []*mailroom.Token{team, ops}},
		{"team", "bob", []*mailroom.Token{ops}},
		{"xteam-", "bob", []*mailroom.Token{ops}},
		{"other", "team", []*mailroom.Token{team, ops}},
		{"t", mailroom.Operator, []*mailroom.Token{ops}},
		{"t", "", nil}, // without an owner: invisible, even to admins
		{"team-1", "", nil},
	} {
		row := &mailroom.Thread{ID: c.id, Owner: c.owner}
		for _, who := range []*mailroom.Token{ann, team, ops, token("", "")} {
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
	for _, p := range mailroom.Permissions() {
		if err := token("x", "", p).Require(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if err := token("x", "", mailroom.PermissionAdmin).Require(p); err != nil {
			t.Errorf("admin, asked for %s: %v", p, err)
		}
		var others []mailroom.Permission
		for _, o := range mailroom.Permissions() {
			if o != p && o != mailroom.PermissionAdmin {
				others = append(others, o)
			}
		}
		if err := token("x", "", others...).Require(p); mailroom.CodeOf(err) != mailroom.CodeForbidden || !strings.Contains(err.Error(), string(p)) {
			t.Errorf("all but %s: %v, want forbidden, naming it", p, err)
		}
	}
}

func TestATokenThatBreaksARuleIsRefused(t *testing.T) {
	const read, work = mailroom.PermissionRead, mailroom.PermissionWork
	agents := token("x", "", work)
	agents.Agents = []string{"coder"}
	idle := token("x", "", read)
	idle.Agents = agents.Agents
	for name, c := range map[string]struct {
		t     *mailroom.Token
		field string // "" is fine
	}{
		"plain":                        {token("Ann_1.b-c@d", "", read), ""},
		"the longest name":             {token(strings.Repeat("x", 64), "", read), ""},
		"a namespace":                  {token("x", "team-", read, mailroom.PermissionSubmit), ""},
		"all scopes":                   {token("x", "", mailroom.Permissions()...), ""},
		"agents to work for":           {agents, ""},
		"no name":                      {token("", "", read), "name"},
		"too long a name":              {token(strings.Repeat("x", 65), "", read), "name"},
		"a blank":                      {token("a b", "", read), "name"},
		"a slash":                      {token("a/b", "", read), "name"},
		"a name that is no path":       {token("..", "", read), "name"},
		"letters of elsewhere":         {token("änn", "", read), "name"},
		"the operator's name":          {token(mailroom.Operator, "", read), "name"},
		"no scopes":                    {token("x", ""), "scopes"},
		"an unknown scope":             {token("x", "", "fly"), "scopes"},
		"a namespace that begins none": {token("x", "a/b", read), "namespace"},
		"a namespace in blanks":        {token("x", " a", read), "namespace"},
		"a worker's namespace":         {token("x", "a", work), "namespace"},
		"an admin's namespace":         {token("x", "a", mailroom.PermissionAdmin), "namespace"},
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
	team, mate := token("team", "team-", mailroom.PermissionSubmit), token("mate", "team-m", mailroom.PermissionSubmit)
	watch, gone := token("watch", "w-", mailroom.PermissionRead), token("gone", "g-", mailroom.PermissionSubmit)
	gone.RevokedAt = time.Unix(1, 0)
	ids, ann := token("ids", "0", mailroom.PermissionSubmit), token("ann", "", mailroom.PermissionSubmit)
	ops := token("ops", "", mailroom.PermissionAdmin)
	all := []*mailroom.Token{team, mate, watch, gone, ids, ann, ops}
	for _, c := range []struct {
		who  *mailroom.Token
		id   string
		want bool
	}{
		{ann, "team-1", true},
		{ann, "team", false},
		{ann, "w-1", false}, // its holder makes none there
		{ann, "g-1", false},
		{ann, "0", true},
		{ann, "019ab0de-0000-7000-8000-000000000000", false}, // given by the server
		{team, "team-1", false},
		{team, "team-m1", false},
		{mate, "team-m1", false},
		{mate, "team-1", true},
		{mailroom.RunToken("team"), "team-1", false}, // its runs
		{mailroom.RunToken("ann"), "team-1", true},
		{mailroom.RunToken("ops"), "team-1", false},
		{ops, "team-1", false},
		{mailroom.RunToken(mailroom.Operator), "team-1", false},
	} {
		if got := c.who.InForeignNamespace(c.id, all); got != c.want {
			t.Errorf("%s squats %q: %t, want %t", c.who.Name, c.id, got, c.want)
		}
	}
}
