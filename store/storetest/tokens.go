package storetest

import (
	"errors"
	"slices"
	"testing"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// tokensAddUpUse checks that use is added in the transaction that writes it.
func tokensAddUpUse(t *testing.T, s *handle) {
	used := auth.Use{Threads: 5, Bytes: 100, Workers: 2, Notifications: 7}
	row := &auth.Token{Name: "ann", Used: used}
	s.write(&store.Changes{Tokens: []*auth.Token{row}})
	add := auth.Use{Threads: -1, Bytes: 1000, Workers: 1, Notifications: -7}
	c := &store.Changes{Use: []store.UseChange{{Token: "ann", Add: add}, {Token: "ann", Add: auth.Use{Bytes: 1}},
		{Token: "unknown", Add: add}, {Token: "new", Add: add}}}
	c.Tokens = []*auth.Token{{Name: "new", Used: used}}
	s.update(func(tx store.Tx) {
		must(t, tx.Write(c))
		got := get(tx.Tokens())(t)
		want := []*auth.Token{
			{Key: row.Key, Name: "ann", Used: used.Plus(add).Plus(auth.Use{Bytes: 1})},
			{Key: c.Tokens[0].Key, Name: "new", Used: used.Plus(add)},
		}
		wantSame(t, "tokens", got, want)
	})
	err := s.Update(t.Context(), func(tx store.Tx) error {
		must(t, tx.Write(&store.Changes{Use: []store.UseChange{{Token: "ann", Add: add}}}))
		return errors.New("refused")
	})
	if err == nil {
		t.Error("Update returned no error, want the error that its function returned")
	}
	if got, want := s.everything().Tokens[0].Used, used.Plus(add).Plus(auth.Use{Bytes: 1}); got != want {
		t.Errorf("after a failed update: got %v, want %v", got, want)
	}
}

func tokenCases() []testCase {
	return []testCase{
		{"round trip", func(t *testing.T, s *handle) {
			zero, full := auth.Token{Name: "a"}, filled[auth.Token](1)
			full.Key = 0
			rows := []*auth.Token{&zero, &full}
			s.write(&store.Changes{Tokens: rows})
			wantSame(t, "tokens", s.everything().Tokens, rows)
			s.update(func(tx store.Tx) { wantSame(t, "tokens in a transaction", get(tx.Tokens())(t), rows) })
		}},
		{"are dropped", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Tokens: []*auth.Token{{Name: "a"}, {Name: "b", Used: auth.Use{Threads: 1}}}})
			s.write(&store.Changes{DropTokens: []string{"b", "unknown"}})
			wantSame(t, "names", tokenNames(s.everything().Tokens), []string{"a"})
			again := &auth.Token{Name: "b"}
			s.write(&store.Changes{Tokens: []*auth.Token{again}})
			wantSame(t, "the same name again", get1(t, s, func(r store.Reader) ([]*auth.Token, error) {
				return r.Tokens("b")
			}), []*auth.Token{again})
		}},
		{"are ordered by name", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Tokens: []*auth.Token{{Name: "c"}, {Name: "a"}, {Name: "B"}}},
				&store.Changes{Tokens: []*auth.Token{{Name: "b"}}})
			wantSame(t, "names", tokenNames(s.everything().Tokens), []string{"B", "a", "b", "c"})
			s.update(func(tx store.Tx) {
				wantSame(t, "some", tokenNames(get(tx.Tokens("c", "unknown", "a"))(t)), []string{"a", "c"})
				wantSame(t, "an unknown name", tokenNames(get(tx.Tokens("unknown"))(t)), []string(nil))
			})
		}},
		{"an update writes all fields", func(t *testing.T, s *handle) {
			c := fullChanges()
			s.write(c)
			used := c.Tokens[0].Used
			full := filled[auth.Token](2)
			full.Key, full.Name = c.Tokens[0].Key, "ann"
			s.write(&store.Changes{Tokens: []*auth.Token{&full}})
			full.Used = used
			wantSame(t, "updated", s.everything().Tokens, []*auth.Token{&full})
			zero := auth.Token{Key: full.Key, Name: "ann"}
			s.write(&store.Changes{Tokens: []*auth.Token{&zero}})
			zero.Used = used
			wantSame(t, "emptied", s.everything().Tokens, []*auth.Token{&zero})
		}},
		{"add up their use", tokensAddUpUse},
		{"are read by Load", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Tokens: []*auth.Token{{Name: "c"}, {Name: "a"}, {Name: "b"}}})
			l := s.load(store.Need{Tokens: []string{"c", "unknown", "a", "c"}})
			wantSame(t, "tokens", slices.Sorted(slices.Values(tokenNames(l.Tokens))), []string{"a", "c"})
		}},
		{"have growing keys and unique names", func(t *testing.T, s *handle) {
			first, second := &auth.Token{Name: "first"}, &auth.Token{Name: "second"}
			s.write(&store.Changes{Tokens: []*auth.Token{first}}, &store.Changes{Tokens: []*auth.Token{second}})
			if first.Key == 0 || second.Key <= first.Key {
				t.Errorf("keys: got %d and %d, want growing ones", first.Key, second.Key)
			}
			before := s.everything()
			for name, row := range map[string]*auth.Token{
				"a second token of a name":  {Name: "first"},
				"an unknown token":          {Key: 99, Name: "third"},
				"the key of another name":   {Key: first.Key, Name: "second"},
				"another name for the same": {Key: first.Key, Name: "third"},
			} {
				err := s.Update(t.Context(), func(tx store.Tx) error {
					return tx.Write(&store.Changes{Tokens: []*auth.Token{row}})
				})
				if got := mailroom.CodeOf(err); got != mailroom.CodeInternal {
					t.Errorf("%s: got %v, want code internal", name, err)
				}
			}
			wantSame(t, "rows", s.everything(), before)
		}},
	}
}
