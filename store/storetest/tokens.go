package storetest

import (
	"testing"

	"mailroom"
)

func tokenCases() []testCase {
	return []testCase{
		{"round trip", func(t *testing.T, s *handle) {
			zero, full := mailroom.Token{Name: "a"}, filled[mailroom.Token](1)
			full.Key = 0
			rows := []*mailroom.Token{&zero, &full}
			s.write(&mailroom.Changes{Tokens: rows})
			wantSame(t, "tokens", s.everything().Tokens, rows)
			s.update(func(tx mailroom.Tx) { wantSame(t, "tokens in a transaction", get(tx.Tokens())(t), rows) })
		}},
		{"are ordered by name", func(t *testing.T, s *handle) {
			s.write(&mailroom.Changes{Tokens: []*mailroom.Token{{Name: "c"}, {Name: "a"}, {Name: "B"}}},
				&mailroom.Changes{Tokens: []*mailroom.Token{{Name: "b"}}})
			wantSame(t, "names", tokenNames(s.everything().Tokens), []string{"B", "a", "b", "c"})
			s.update(func(tx mailroom.Tx) {
				wantSame(t, "some", tokenNames(get(tx.Tokens("c", "unknown", "a"))(t)), []string{"a", "c"})
				wantSame(t, "an unknown name", tokenNames(get(tx.Tokens("unknown"))(t)), []string(nil))
			})
		}},
		{"an update writes all fields", func(t *testing.T, s *handle) {
			c := fullChanges()
			s.write(c)
			full := filled[mailroom.Token](2)
			full.Key, full.Name = c.Tokens[0].Key, "ann"
			s.write(&mailroom.Changes{Tokens: []*mailroom.Token{&full}})
			wantSame(t, "updated", s.everything().Tokens, []*mailroom.Token{&full})
			zero := mailroom.Token{Key: full.Key, Name: "ann"}
			s.write(&mailroom.Changes{Tokens: []*mailroom.Token{&zero}})
			wantSame(t, "emptied", s.everything().Tokens, []*mailroom.Token{&zero})
		}},
		{"have growing keys and unique names", func(t *testing.T, s *handle) {
			first, second := &mailroom.Token{Name: "first"}, &mailroom.Token{Name: "second"}
			s.write(&mailroom.Changes{Tokens: []*mailroom.Token{first}}, &mailroom.Changes{Tokens: []*mailroom.Token{second}})
			if first.Key == 0 || second.Key <= first.Key {
				t.Errorf("keys: got %d and %d, want growing ones", first.Key, second.Key)
			}
			before := s.everything()
			for name, row := range map[string]*mailroom.Token{
				"a second token of a name":  {Name: "first"},
				"an unknown token":          {Key: 99, Name: "third"},
				"the key of another name":   {Key: first.Key, Name: "second"},
				"another name for the same": {Key: first.Key, Name: "third"},
			} {
				err := s.Update(t.Context(), func(tx mailroom.Tx) error {
					return tx.Write(&mailroom.Changes{Tokens: []*mailroom.Token{row}})
				})
				if got := mailroom.CodeOf(err); got != mailroom.CodeInternal {
					t.Errorf("%s: got %v, want code internal", name, err)
				}
			}
			wantSame(t, "rows", s.everything(), before)
		}},
	}
}
