package storetest

import (
	"encoding/json"
	"testing"

	"mailroom/store"
)

func cursorCases() []testCase {
	return []testCase{
		{"round trip", func(t *testing.T, s *handle) {
			zero, full := store.Cursor{Channel: "a"}, filled[store.Cursor](1)
			s.write(&store.Changes{Cursors: []store.Cursor{zero, full}})
			want := []store.Cursor{zero, full}
			wantSame(t, "cursors", s.everything().Cursors, want)
			s.update(func(tx store.Tx) {
				wantSame(t, "cursors in a transaction", get(tx.Cursors(store.CursorQuery{}))(t), want)
			})
		}},
		{"are ordered by channel and identity, one for each", func(t *testing.T, s *handle) {
			at := func(channel, identity, position string) store.Cursor {
				return store.Cursor{Channel: channel, Identity: identity, Position: json.RawMessage(position), MovedAt: base()}
			}
			s.write(&store.Changes{Cursors: []store.Cursor{at("b", "x", "1"), at("a", "y", "2"), at("b", "", "3")}},
				&store.Changes{Cursors: []store.Cursor{at("b", "x", "4"), at("a", "x", "5")}})
			wantSame(t, "cursors", s.everything().Cursors, []store.Cursor{
				at("a", "x", "5"), at("a", "y", "2"), at("b", "", "3"), at("b", "x", "4"),
			})
			s.view(func(r store.Reader) {
				wantSame(t, "those of a channel", get(r.Cursors(store.CursorQuery{Channel: "a"}))(t),
					[]store.Cursor{at("a", "x", "5"), at("a", "y", "2")})
				wantSame(t, "the first of a channel", get(r.Cursors(store.CursorQuery{Channel: "a", Limit: 1}))(t),
					[]store.Cursor{at("a", "x", "5")})
				wantSame(t, "the first of all", get(r.Cursors(store.CursorQuery{Limit: 3}))(t),
					[]store.Cursor{at("a", "x", "5"), at("a", "y", "2"), at("b", "", "3")})
				wantSame(t, "the next of all",
					get(r.Cursors(store.CursorQuery{After: store.CursorRef{Channel: "a", Identity: "x"}, Limit: 2}))(t),
					[]store.Cursor{at("a", "y", "2"), at("b", "", "3")})
				wantSame(t, "some of a channel",
					get(r.Cursors(store.CursorQuery{Channel: "b", Identities: []string{"x", "y", ""}}))(t),
					[]store.Cursor{at("b", "", "3"), at("b", "x", "4")})
			})
			s.write(&store.Changes{
				DropCursors: []store.Cursor{{Channel: "a", Identity: "x"}, {Channel: "b"}, {Channel: "c"}},
				Cursors:     []store.Cursor{at("b", "", "6")},
			})
			wantSame(t, "after a drop", s.everything().Cursors,
				[]store.Cursor{at("a", "y", "2"), at("b", "", "6"), at("b", "x", "4")})
		}},
	}
}
