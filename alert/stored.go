package alert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/internal/display"
	"mailroom/internal/setting"
	"mailroom/store"
)

// Rules that are made on the page are stored, one list for each owner. Rules of the operator apply to all threads,
// rules of a token to the threads that it owns. A list is the position of a cursor, so a change of it is one
// transaction.

const (
	// MaxRules bounds the stored rules of an owner.
	MaxRules = 20
	// maxRuleList and maxRuleText bound the lists of a rule and their items, in bytes.
	maxRuleList = 20
	maxRuleText = 200
	rulesOf     = "rules/" // begins the identity of a cursor of rules, before the owner
)

// RulesCursor returns the cursor of the stored rules of an owner.
func RulesCursor(owner string) store.CursorRef {
	return store.CursorRef{Channel: cursorChannel, Identity: rulesOf + owner}
}

// StoredRule is the stored form of a rule.
type StoredRule struct {
	api.AlertRule
	// Row is the row of the token that the rule belongs to, so that it does not come back with the name of a revoked
	// token. Row is "" if the rule is the operator's, or if an older version made it.
	Row string `json:"row,omitempty"`
}

// ReadRules decodes the position of a cursor of rules. A nil position has no rules.
func ReadRules(position json.RawMessage) (all []StoredRule, err error) {
	if position == nil {
		return nil, nil
	}
	if err := json.Unmarshal(position, &all); err != nil {
		return nil, fmt.Errorf("decode the rules of alerts: %w", err)
	}
	return all, nil
}

// Keep returns the rules of an owner that have not ended, marked with the row of its token. changedAt is when the
// list was changed.
func (x Rights) Keep(all []StoredRule, owner string, changedAt time.Time) []StoredRule {
	all = slices.DeleteFunc(slices.Clone(all), func(r StoredRule) bool { return !x.same(owner, r.Row, changedAt) })
	for i := range all {
		all[i].Row = x.Row(owner)
	}
	return all
}

// PutRule adds a rule to the rules of an owner, or replaces the rule with the same name. It may modify all.
func PutRule(all []StoredRule, rule StoredRule) ([]StoredRule, error) {
	i := slices.IndexFunc(all, func(r StoredRule) bool { return r.Name == rule.Name })
	switch {
	case i >= 0:
		all[i] = rule
	case len(all) >= MaxRules:
		return nil, mailroom.Errorf(mailroom.CodeConflict, "there are %d rules already, which is the limit: remove one",
			MaxRules)
	default:
		all = append(all, rule)
	}
	return all, nil
}

// RemoveRule removes an owner's rule by name. It may modify all.
func RemoveRule(all []StoredRule, name string) ([]StoredRule, error) {
	i := slices.IndexFunc(all, func(r StoredRule) bool { return r.Name == name })
	if i < 0 {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "no rule %q was made here", display.Cut(name, 100))
	}
	return slices.Delete(all, i, i+1), nil
}

// Describe returns a rule as the API shows it.
func Describe(r Rule) api.AlertRule {
	out := api.AlertRule{
		Name: r.Name, When: []string{}, To: r.To, Agents: append([]string{}, r.Agents...),
		Threads: append([]string{}, r.Threads...),
		Text:    string(r.Text), Quiet: r.Quiet.String(), Digest: r.DigestText(), Zone: r.Zone.String(),
	}
	for _, k := range r.When {
		out.When = append(out.When, string(k))
	}
	if slices.Contains(r.When, KindOutage) {
		out.Outage = setting.FormatDuration(cmp.Or(r.Outage, DefaultOutage))
	}
	if r.Remind > 0 {
		out.Remind = setting.FormatDuration(r.Remind)
	}
	return out
}

// ParseRule returns a rule of an owner. Empty fields have their defaults. targets are those that the owner
// may use.
func ParseRule(in api.AlertRule, owner string, targets []string) (Rule, error) {
	r := Rule{Owner: owner, Name: in.Name, To: in.To, Agents: in.Agents, Threads: in.Threads, Text: TextTitle,
		Digest: 8 * 60, Zone: time.UTC}
	if err := checkRule(&in, owner, targets); err != nil {
		return r, err
	}
	for _, k := range in.When {
		r.When = append(r.When, Kind(k))
	}
	if in.Text != "" {
		r.Text = Text(in.Text)
	}
	ok := false
	if r.Quiet, ok = ParseQuiet(in.Quiet); !ok {
		return r, check.Invalid("quiet", `must be hours such as "22:00-07:00"`, in.Quiet)
	}
	if in.Digest != "" {
		wrong := ""
		if r.Digest, r.Every, wrong = ParseDigest(in.Digest); wrong != "" {
			return r, check.Invalid("digest", wrong, in.Digest)
		}
	}
	if in.Outage != "" {
		var err error
		if r.Outage, err = time.ParseDuration(in.Outage); err != nil || r.Outage < MinOutage || r.Outage > MaxOutage {
			return r, check.Invalid("outage", `must be a duration from 1s to 24h, such as "5m"`, in.Outage)
		}
	}
	if in.Remind != "" {
		var err error
		if r.Remind, err = time.ParseDuration(in.Remind); err != nil || r.Remind < MinRemind || r.Remind > MaxRemind {
			return r, check.Invalid("remind_after", `must be a duration from 1s to 24h, such as "30m"`, in.Remind)
		}
		if !slices.Contains(r.When, KindTicket) {
			return r, check.Invalid("remind_after", "is about questions: add ticket to when", in.Remind)
		}
	}
	if in.Zone != "" {
		place, err := time.LoadLocation(in.Zone)
		if err != nil || in.Zone == "Local" {
			return r, check.Invalid("zone", `must be a time zone such as "Europe/Berlin"`, in.Zone)
		}
		r.Zone = place
	}
	return r, nil
}

// checkRule checks the fields of a rule that are lists or one of some values.
func checkRule(in *api.AlertRule, owner string, targets []string) error {
	ofToken := owner != auth.Operator
	switch {
	case !validName(in.Name):
		return check.Invalid("name", "must be 1 to 64 letters, digits, dots, dashes and underscores", in.Name)
	case len(in.When) == 0:
		return check.Invalid("when", "is missing: give at least one of "+kindNames(), nil)
	case len(in.To) == 0:
		return check.Invalid("to", "is missing: name a target", nil)
	case ofToken && len(in.To) > 1:
		return check.Invalid("to", "must be one target: only rules of the operator may have fallback targets", in.To)
	case in.Text != "" && !slices.Contains(Texts(), Text(in.Text)):
		return check.Invalid("text", "must be none, title or full", in.Text)
	}
	for _, k := range in.When {
		switch kind := Kind(k); {
		case !slices.Contains(Kinds(), kind):
			return check.Invalid("when", "must be of "+kindNames(), k)
		case ofToken && kind != KindTicket && kind != KindFailed && kind != KindSchedule:
			return check.Invalid("when", "must be ticket, failed or schedule: the others are about the server", k)
		}
	}
	for i, name := range in.To {
		if !slices.Contains(targets, name) || slices.Contains(in.To[:i], name) {
			return check.Invalid("to", "must be different targets that you may use: "+strings.Join(targets, ", "), name)
		}
	}
	for field, list := range map[string][]string{"agents": in.Agents, "threads": in.Threads, "when": in.When} {
		if len(list) > maxRuleList {
			return check.Invalid(field, fmt.Sprintf("has more than %d items", maxRuleList), nil)
		}
		for _, item := range list {
			if item == "" || len(item) > maxRuleText || !utf8.ValidString(item) {
				return check.Invalid(field, fmt.Sprintf("must be texts of 1 to %d bytes", maxRuleText), item)
			}
		}
	}
	return nil
}

// kindNames lists the kinds of rules.
func kindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// validName reports whether s may be the name of a stored rule. Names are ASCII, because they are a part of an
// address.
func validName(s string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) })
}
