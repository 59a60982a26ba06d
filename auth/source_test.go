package auth_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom/auth"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func base(name, sum string) *auth.Token {
	return &auth.Token{Name: name, Sum: sum, Scopes: []auth.Permission{auth.PermissionRead}, CreatedAt: noon}
}

func below(source *auth.Token, kind auth.Kind, sum string, hours int) *auth.Token {
	of := source.Terms.For
	if of == "" {
		of = source.Name
	}
	t := &auth.Token{Name: auth.DerivedName(of, sum), Sum: sum, CreatedAt: noon,
		Terms: auth.Terms{Kind: kind, For: of, Source: source.ID()}}
	t.Terms.Scopes = []auth.Permission{auth.PermissionRead}
	if hours > 0 {
		t.Terms.ExpiresAt = noon.Add(time.Duration(hours) * time.Hour)
	}
	return t
}

// valid returns the names of the valid rows at noon, and after how many hours each ends.
func valid(operator *auth.Token, rows ...*auth.Token) (names []string) {
	for _, t := range auth.NewChains(rows, operator, noon).Valid() {
		hours := 0
		if !t.Terms.ExpiresAt.IsZero() {
			hours = int(t.Terms.ExpiresAt.Sub(noon).Hours())
		}
		names = append(names, fmt.Sprintf("%s %d", t.Sum, hours))
	}
	slices.Sort(names)
	return names
}

func TestARightIsValidWhileEachRowOfItsChainIs(t *testing.T) {
	operator := auth.RunToken(auth.Operator)
	operator.Sum = "op"
	replaced := auth.RunToken(auth.Operator)
	replaced.Sum = "former op"
	ann, again := base("ann", "a"), base("ann", "a2")
	link := below(ann, auth.KindLink, "link", 1)
	session := below(ann, auth.KindSession, "session", 30)
	limited := below(session, auth.KindLimited, "limited", 40)
	ofAnn := []*auth.Token{link, session, limited}
	changed := func(t *auth.Token, change func(*auth.Token)) *auth.Token {
		out := *t
		change(&out)
		return &out
	}
	unsourced := func(t *auth.Token, created time.Time) *auth.Token {
		return changed(t, func(t *auth.Token) { t.Terms.Source, t.CreatedAt = "", created })
	}
	revoked := changed(ann, func(t *auth.Token) { t.RevokedAt = noon })
	ends := changed(ann, func(t *auth.Token) { t.Terms.ExpiresAt = noon.Add(5 * time.Hour) })
	expired := changed(session, func(t *auth.Token) { t.Terms.ExpiresAt = noon })
	loop := below(ann, auth.KindSession, "loop", 1)
	loop.Terms.Source = loop.ID()
	for what, c := range map[string]struct {
		rows []*auth.Token
		want []string
	}{
		"all are there":           {append(ofAnn, ann), []string{"a 0", "limited 30", "link 1", "session 30"}},
		"the token ends before":   {append(ofAnn, ends), []string{"a 5", "limited 5", "link 1", "session 5"}},
		"the token was revoked":   {append(ofAnn, revoked), nil},
		"the token is gone":       {ofAnn, nil},
		"the name is used again":  {append(ofAnn, again), []string{"a2 0"}},
		"the session is gone":     {[]*auth.Token{ann, link, limited}, []string{"a 0", "link 1"}},
		"the session has expired": {[]*auth.Token{ann, expired, limited}, []string{"a 0"}},
		"it is its own source":    {[]*auth.Token{ann, loop}, []string{"a 0"}},
		"the source acts for another": {[]*auth.Token{ann, session, base("bob", "b"),
			below(base("bob", "b"), auth.KindLimited, "b's", 1), changed(limited, func(t *auth.Token) {
				t.Terms.For = "bob"
			})}, []string{"a 0", "b 0", "b's 1", "session 30"}},
		"no source, after the token": {[]*auth.Token{ann, unsourced(session, noon)}, []string{"a 0", "session 30"}},
		"no source, before the token": {[]*auth.Token{ann, unsourced(session, noon.Add(-time.Microsecond))},
			[]string{"a 0"}},
		"of the operator": {[]*auth.Token{below(operator, auth.KindSession, "o", 2)}, []string{"o 2"}},
		"of the operator, no source": {[]*auth.Token{unsourced(below(operator, auth.KindSession, "o", 2), noon)},
			[]string{"o 2"}},
		"of a former operator": {[]*auth.Token{below(replaced, auth.KindSession, "o", 2)}, nil},
		"of an ended session of the operator": {[]*auth.Token{below(below(operator, auth.KindSession, "o", 2),
			auth.KindLimited, "l", 2)}, nil},
	} {
		if got := valid(operator, c.rows...); !slices.Equal(got, c.want) {
			t.Errorf("%s: valid are %q, want %q", what, got, c.want)
		}
	}
	// Who does not know the operator's present token takes each former one for it, but no session that has ended.
	for want, rows := range map[string][]*auth.Token{
		"[o 2]": {below(replaced, auth.KindSession, "o", 2)},
		"[]":    {below(below(replaced, auth.KindSession, "o", 2), auth.KindLimited, "l", 2)},
	} {
		if got := valid(auth.RunToken(auth.Operator), rows...); fmt.Sprint(got) != want {
			t.Errorf("valid are %q, want %s", got, want)
		}
	}
}

func TestRevokingARowEndsTheRowsDerivedFromIt(t *testing.T) {
	ann, bob := base("ann", "a"), base("bob", "b")
	session := below(ann, auth.KindSession, "session", 30)
	link := below(session, auth.KindLink, "link", 1)
	phone := below(session, auth.KindSession, "phone", 30)
	limited := below(phone, auth.KindLimited, "limited", 30)
	other := below(ann, auth.KindSession, "other", 30)
	old := below(ann, auth.KindSession, "old", 30)
	old.Terms.Source = ""
	his := below(bob, auth.KindSession, "his", 30)
	chains := auth.NewChains([]*auth.Token{ann, bob, session, link, phone, limited, other, old, his},
		auth.RunToken(auth.Operator), noon)
	for _, c := range []struct {
		of   *auth.Token
		want string
	}{
		{ann, "[session link phone limited other old]"}, {session, "[link phone limited]"}, {phone, "[limited]"},
		{limited, "[]"}, {other, "[]"}, {bob, "[his]"},
	} {
		var got []string
		for _, row := range chains.Below(c.of) {
			got = append(got, row.Sum)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("with %s end %v, want %s", c.of.Sum, got, c.want)
		}
	}
}

func TestChainsAreBounded(t *testing.T) {
	rows := []*auth.Token{base("ann", "a")}
	for i := range auth.MaxChain + 1 {
		rows = append(rows, below(rows[i], auth.KindSession, fmt.Sprint(i), 1))
	}
	chains := auth.NewChains(rows, auth.RunToken(auth.Operator), noon)
	for i, t2 := range rows[1:] {
		if b, _ := chains.Base(t2); (b != nil) != (i < auth.MaxChain) || chains.Length(t2) != i+1 {
			t.Errorf("row %d of a chain: valid %t, length %d", i+1, b != nil, chains.Length(t2))
		}
	}
}

func TestAnIDRevealsNothingAndChangesWithTheSecret(t *testing.T) {
	one, two := base("ann", "a"), base("ann", "b")
	operator := auth.RunToken(auth.Operator)
	if operator.ID() != "" {
		t.Error("a token without a secret has an id")
	}
	operator.Sum = "a"
	if one.ID() == two.ID() || one.ID() != base("bob", "a").ID() || one.ID() == operator.ID() || len(one.ID()) != 32 {
		t.Errorf("got the ids %q, %q and %q", one.ID(), two.ID(), operator.ID())
	}
}
