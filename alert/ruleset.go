package alert

import (
	"slices"
	"strings"
	"time"

	"mailroom/auth"
	"mailroom/store"
)

// ruleset reads the stored rules. It parses a list again only if the list has changed since it was read, because
// parsing a rule reads its time zone from a file, and a follower reads the rules each second.
type ruleset struct {
	parsed map[string]ownedRules // parsed rules by owner
}

// ownedRules has the stored rules of one owner.
type ownedRules struct {
	changedAt time.Time
	stored    []StoredRule
	rules     []Rule // parsed from stored, in its order; a rule without targets is not valid now
}

// pageOfRules is how many lists of rules are read at a time.
const pageOfRules = 200

// read returns the stored rules that hold now, and the rights of their owners.
func (s *ruleset) read(r store.Reader, allowed Allowed, now time.Time) (all []Rule, err error) {
	before := s.parsed
	s.parsed = map[string]ownedRules{}
	var owners []string
	// The rules stand behind the position of the follower, which may be large and is not read again.
	after := store.CursorRef{Channel: cursorChannel, Identity: cursorIdentity}
	for more := true; more; {
		rows, err := r.Cursors(store.CursorQuery{After: after, Limit: pageOfRules})
		if err != nil {
			return nil, err
		}
		more = len(rows) == pageOfRules
		for _, row := range rows {
			after = store.CursorRef{Channel: row.Channel, Identity: row.Identity}
			owner, ok := strings.CutPrefix(row.Identity, rulesOf)
			if row.Channel != cursorChannel || !ok {
				more = more && row.Channel == cursorChannel
				continue
			}
			list, known := before[owner]
			if !known || !list.changedAt.Equal(row.MovedAt) {
				if list, err = parseRules(owner, row); err != nil {
					return nil, err
				}
			}
			s.parsed[owner] = list
			owners = append(owners, owner)
		}
	}
	rights, err := ReadRights(r, allowed, now, slices.Clone(owners)...)
	if err != nil {
		return nil, err
	}
	for _, owner := range owners {
		list := s.parsed[owner]
		all = append(all, list.valid(rights, owner)...)
	}
	return all, nil
}

// parseRules parses the rules of an owner without a check of their targets.
func parseRules(owner string, row store.Cursor) (list ownedRules, err error) {
	list.changedAt = row.MovedAt
	if list.stored, err = ReadRules(row.Position); err != nil {
		return list, err
	}
	for _, in := range list.stored {
		rule, err := ParseRule(in.AlertRule, owner, in.To)
		if err != nil { // another version of the server wrote the rule
			rule = Rule{}
		}
		list.rules = append(list.rules, rule)
	}
	return list, nil
}

// valid returns the rules whose token is valid, each with the targets that the token may use.
func (l *ownedRules) valid(rights Rights, owner string) (all []Rule) {
	usable := rights.allowed.Usable(owner)
	for i, rule := range l.rules {
		if !rights.same(owner, l.stored[i].Row, l.changedAt) {
			continue
		}
		rule.To = slices.DeleteFunc(slices.Clone(rule.To), func(name string) bool { return !slices.Contains(usable, name) })
		if len(rule.To) == 0 {
			continue
		}
		if owner != auth.Operator {
			rule.Place = rights.Place(owner, rule.To[0])
		}
		all = append(all, rule)
	}
	return all
}
