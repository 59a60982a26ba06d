package storetest

import (
	"encoding/json"
	"testing"

	"mailroom"
)

func cursorCases() []testCase {
	return []testCase{
		{"round trip", func(t *testing.T, s *handle) {
			zero, full := mailroom.Cursor{Channel: "a"}, filled[mailroom.Cursor](1)
			s.write(&mailroom.Changes{Cursors: []mailroom.Cursor{zero, full}})
			want := []mailroom.Cursor{zero, full}
			wantSame(t, "cursors", s.everything().Cursors, want)
			s.update(func(tx mailroom.Tx) {
				wantSame(t, "cursors in a transaction", get(tx.Cursors(mailroom.CursorQuery{}))(t), want)
			})
		}},
		{"are ordered by channel and identity, one for each", func(t *testing.T, s *handle) {
			at := func(channel, identity, position string) mailroom.Cursor {
				return mailroom.Cursor{Channel: channel, Identity: identity, Position: json.RawMessage(position), MovedAt: base()}
			}
			s.write(&mailroom.Changes{Cursors: []mailroom.Cursor{at("b", "x", "1"), at("a", "y", "2"), at("b", "", "3")}},
				&mailroom.Changes{Cursors: []mailroom.Cursor{at("b", "x", "4"), at("a", "x", "5")}})
			wantSame(t, "cursors", s.everything().Cursors, []mailroom.Cursor{
				at("a", "x", "5"), at("a", "y", "2"), at("b", "", "3"), at("b", "x", "4"),
			})
			s.view(func(r mailroom.Reader) {
				wantSame(t, "those of a channel", get(r.Cursors(mailroom.CursorQuery{Channel: "a"}))(t), []mailroom.Cursor{at("a", "x", "5"), at("a", "y", "2")})
				wantSame(t, "the first of a channel", get(r.Cursors(mailroom.CursorQuery{Channel: "a", Limit: 1}))(t), []mailroom.Cursor{at("a", "x", "5")})
				wantSame(t, "the first of all", get(r.Cursors(mailroom.CursorQuery{Limit: 3}))(t), []mailroom.Cursor{at("a", "x", "5"), at("a", "y", "2"), at("b", "", "3")})
				wantSame(t, "some of a channel", get(r.Cursors(mailroom.CursorQuery{Channel: "b", Identities: []string{"x", "y", ""}}))(t),
					[]mailroom.Cursor{at("b", "", "3"), at("b", "x", "4")})
			})
			s.write(&mailroom.Changes{
				DropCursors: []mailroom.Cursor{{Channel: "a", Identity: "x"}, {Channel: "b"}, {Channel: "c"}},
				Cursors:     []mailroom.Cursor{at("b", "", "6")},
			})
			wantSame(t, "after a drop", s.everything().Cursors, []mailroom.Cursor{at("a", "y", "2"), at("b", "", "6"), at("b", "x", "4")})
		}},
	}
}
