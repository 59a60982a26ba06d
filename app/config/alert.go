package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/channel/chat"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/internal/setting"
)

// Target is one [targets.NAME] table: where alerts go.
type Target struct {
	Kind     target.Kind
	Settings *target.Settings // settings of the kind of target
	Decide   bool             // alerts have links and buttons that decide
	LinkLife time.Duration    // how long the links in the alerts are valid
	// Text is how much of the replies of threads that subscribe is sent.
	Text alert.Text
	Zone *time.Location // zone of the times in these replies
	// Tokens are the names of the tokens whose threads may subscribe, beside the operator's.
	Tokens []string
}

// newTarget returns a target with the defaults of its kind.
func newTarget(k target.Kind) *Target {
	return &Target{Kind: k, Settings: k.New(), Decide: true, LinkLife: 24 * time.Hour, Text: alert.TextTitle,
		Zone: time.UTC}
}

func (t *Target) settings() []setting.Setting {
	return slices.Concat([]setting.Setting{
		setting.New("kind", "Kind of target. It decides which other keys exist.", setting.OneOf(&t.Kind.Name, t.Kind.Name)),
	}, t.Settings.Keys, []setting.Setting{
		setting.New("decide",
			"Alerts have a link, and buttons where the target has them, with which everybody who gets the alert can decide.",
			setting.Bool(&t.Decide)),
		setting.New("link_life", "How long such a link is valid.",
			setting.Duration(&t.LinkLife, time.Minute, 30*24*time.Hour)),
		setting.New("text",
			"How much of the replies of threads that subscribe is sent: none, title (the first line) or full.",
			setting.OneOf(&t.Text, alert.Texts()...)),
		setting.New("zone", "Time zone of these replies.", zone(&t.Zone)),
		setting.New("tokens", "Names of tokens whose threads may subscribe too.", setting.List(&t.Tokens)),
	})
}

// Place returns a fingerprint of where the target sends to. It covers all settings of the kind that differ from their
// defaults, so that a setting that another version adds changes nothing, and no secrets, because they may be rotated.
// The alternative, that each kind lists which settings are its address, would fail silently for a setting that a kind
// forgets.
func (t *Target) Place() string {
	names, defaults := []string{"target", t.Kind.Name}, t.Kind.New()
	for i, s := range t.Settings.Keys {
		value := fmt.Sprint(s.Value.Get())
		if s.Secret == nil && value != fmt.Sprint(defaults.Keys[i].Value.Get()) {
			names = append(names, s.Key, value)
		}
	}
	return digest.Short(names)[:16]
}

// Secrets returns the secrets of the target.
func (t *Target) Secrets() (all []*setting.Secret) {
	for _, s := range t.Settings.Keys {
		if s.Secret != nil && !slices.Contains(all, s.Secret) {
			all = append(all, s.Secret)
		}
	}
	return all
}

// Rule is one [rules.NAME] table: events, and the targets that get alerts about them.
type Rule struct{ alert.Rule }

// newRule returns a rule with the defaults.
func newRule(name string) *Rule {
	return &Rule{alert.Rule{Name: name, Text: alert.TextTitle, Digest: 8 * 60, Outage: alert.DefaultOutage,
		Zone: time.UTC}}
}

func (r *Rule) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("when",
			"What causes alerts: ticket (an agent asks), failed (a run failed for good), channel (one is not connected), "+
				"paused (an agent is), outage (runs wait because of one), budget (80 % of one are used), "+
				"schedule (one paused itself), digest (each day or period).",
			listOf(&r.When, alert.Kinds())).
			Require("missing when; set it to one or more of " +
				`"ticket", "failed", "channel", "paused", "outage", "budget", "schedule", "digest"`),
		setting.New("to",
			"Targets. Alerts go to the first one; the others are its fallbacks, in this order, when it is down.",
			setting.Each(&r.To, "a target name", setting.ValidName)).
			Require(`missing to; set the name of a target, such as to = ["phone"]`),
		setting.New("agents", "Only about these agents; empty is all.",
			setting.Each(&r.Agents, "an agent name", setting.ValidName)),
		setting.New("threads", "Only about threads whose ids begin with one of these; empty is all.",
			setting.List(&r.Threads)),
		setting.New("text", "How much of what agents and users wrote is sent: none, title (the first line) or full.",
			setting.OneOf(&r.Text, alert.Texts()...)),
		setting.New("quiet", `Hours without alerts, such as "22:00-07:00"; the alerts follow at their end.`, quiet(&r.Quiet)),
		setting.New("digest", `Time of the digest of each day, or the period of shorter ones: one that divides an hour or `+
			`a day evenly, from "1m" to "12h".`, digestAt(&r.Rule)),
		setting.New("outage", "How long runs of an agent must wait because of an outage before the rule alerts.",
			setting.Duration(&r.Outage, alert.MinOutage, alert.MaxOutage)),
		setting.New("remind_after", `How long after the alert about a question that is still open a reminder follows, `+
			`such as "30m". `+"Each further one, of five at most, waits twice as long; empty sends none.", remind(&r.Remind)),
		setting.New("zone", `Time zone of quiet and digest, such as "Europe/Berlin".`, zone(&r.Zone)),
	}
}

// listOf is the value of a setting that lists some of the allowed values.
func listOf[S ~string](p *[]S, allowed []S) setting.Value {
	texts := func(values []S) (out []string) {
		for _, v := range values {
			out = append(out, string(v))
		}
		return out
	}
	var given []string
	each := setting.Each(&given, "one of "+strings.Join(texts(allowed), ", "),
		func(s string) bool { return slices.Contains(allowed, S(s)) })
	return setting.Value{
		Set: func(v any) error {
			if err := each.Set(v); err != nil {
				return err
			}
			*p = nil
			for _, s := range given {
				*p = append(*p, S(s))
			}
			return nil
		},
		Get: func() any { return append([]string{}, texts(*p)...) },
	}
}

func zone(p **time.Location) setting.Value {
	return setting.Of(p, `a time zone such as "Europe/Berlin"`, func(v any) (*time.Location, bool) {
		s, isText := v.(string)
		place, err := time.LoadLocation(s)
		return place, isText && s != "" && s != "Local" && err == nil
	}, func(l *time.Location) any { return l.String() })
}

// digestAt is the value of a setting with the time or the period of the digests of a rule.
func digestAt(r *alert.Rule) setting.Value {
	return setting.Value{
		Set: func(v any) error {
			s, isText := v.(string)
			at, every, wrong := alert.ParseDigest(s)
			if !isText || wrong != "" {
				return setting.Invalid(v, strings.TrimPrefix(wrong, "must be "))
			}
			r.Digest, r.Every = at, every
			return nil
		},
		Get: func() any { return r.DigestText() },
	}
}

func quiet(p *alert.Quiet) setting.Value {
	return setting.Of(p, `hours such as "22:00-07:00"`, func(v any) (alert.Quiet, bool) {
		s, isText := v.(string)
		q, ok := alert.ParseQuiet(s)
		return q, isText && ok
	}, func(q alert.Quiet) any { return q.String() })
}

// remind is the value of a setting with the delay of the first reminder; "" sends none.
func remind(p *time.Duration) setting.Value {
	return setting.Of(p, `a duration from 1s to 24h, such as "30m"`, func(v any) (time.Duration, bool) {
		s, isText := v.(string)
		if isText && s == "" {
			return 0, true
		}
		d, err := time.ParseDuration(s)
		return d, isText && err == nil && d >= alert.MinRemind && d <= alert.MaxRemind
	}, func(d time.Duration) any {
		if d == 0 {
			return ""
		}
		return setting.FormatDuration(d)
	})
}

// targets reads the tables of targets.
func (r *reader) targets(tables map[string]any) {
	for _, name := range sorted(tables) {
		if key := "targets." + name; r.named(key, name, tables[name], "target") {
			r.target(key, name, tables[name].(map[string]any))
		}
	}
}

// target reads one table, kind first, because the kind decides which keys exist.
func (r *reader) target(key, name string, table map[string]any) {
	var of string
	var names []string
	for _, k := range r.config.kinds.Targets {
		names = append(names, k.Name)
	}
	if table["kind"] == nil {
		r.report(key, "missing kind; use one of "+strings.Join(names, ", "))
		return
	}
	if err := setting.OneOf(&of, names...).Set(table["kind"]); err != nil {
		r.report(key+".kind", err.Error())
		return
	}
	t, before := newTarget(r.config.kinds.Targets[slices.Index(names, of)]), len(r.problems)
	r.table(key+".", table, t.settings())
	if len(r.problems) > before {
		return
	}
	err := setting.CheckRequired(t.settings())
	if err == nil && t.Settings.Check != nil {
		err = t.Settings.Check()
	}
	if err == nil && t.Settings.Shared && len(t.Tokens) > 0 {
		err = fmt.Errorf("tokens: threads of tokens cannot deliver to a target of kind %s, because its subscribers are "+
			"the operator's", t.Kind.Name)
	}
	for other, already := range r.config.Targets {
		if err == nil && t.Settings.Shared && already.Kind.Name == t.Kind.Name {
			err = fmt.Errorf("target %s has the kind %s already, and browsers subscribe to one target; remove one of them",
				other, t.Kind.Name)
		}
	}
	if err != nil {
		r.report(key, err.Error())
		return
	}
	r.config.Targets[name] = t
}

// rules reads the tables of rules.
func (r *reader) rules(tables map[string]any) {
	for _, name := range sorted(tables) {
		key := "rules." + name
		if !r.named(key, name, tables[name], "rule") {
			continue
		}
		rule, before := newRule(name), len(r.problems)
		r.table(key+".", tables[name].(map[string]any), rule.settings())
		if len(r.problems) > before {
			continue
		}
		switch {
		case len(rule.When) == 0:
			r.report(key, `missing when; set it to one or more of `+
				`"ticket", "failed", "channel", "paused", "outage", "budget", "schedule", "digest"`)
		case len(rule.To) == 0:
			r.report(key, `missing to; set the name of a target, such as to = ["phone"]`)
		case rule.Remind > 0 && !slices.Contains(rule.When, alert.KindTicket):
			r.report(key+".remind_after", `is about questions; add "ticket" to when`)
		default:
			r.config.Rules[name] = rule
		}
	}
}

// checkRules returns the problems of rules that name targets which do not exist.
func (c *Config) checkRules() (found []problem) {
	for _, name := range sorted(c.Rules) {
		for _, to := range c.Rules[name].To {
			if c.Targets[to] != nil {
				continue
			}
			what := fmt.Sprintf("unknown target %q", to)
			if near := display.Suggest(to, c.TargetNames()); near != "" {
				what += fmt.Sprintf(" (did you mean %q?)", near)
			}
			found = append(found, problem{key: "rules." + name + ".to", what: what + "; add one with `mailroom notify add`"})
		}
		to := slices.Clone(c.Rules[name].To)
		slices.Sort(to)
		if len(slices.Compact(to)) < len(c.Rules[name].To) {
			found = append(found, problem{key: "rules." + name + ".to", what: "names a target twice"})
		}
	}
	return found
}

// checkChats returns the problems of targets that send to a chat of a channel that the configuration does not have.
func (c *Config) checkChats() (found []problem) {
	for _, name := range c.TargetNames() {
		thread := c.Targets[name].Settings.Chat
		if thread == nil {
			continue
		}
		of, _, err := chat.RoomOfConversation(*thread) // checked before
		if err == nil && (c.Channels[of] == nil || !c.Channels[of].Kind.Chat) {
			what := fmt.Sprintf("%q is of the channel %q, which is not a chat channel of this server", *thread, of)
			found = append(found, problem{key: "targets." + name + ".thread", what: what})
		}
	}
	return found
}

// TargetNames returns the sorted names of the targets.
func (c *Config) TargetNames() []string { return slices.Sorted(maps.Keys(c.Targets)) }

// AlertRules returns the rules, sorted by name.
func (c *Config) AlertRules() (all []alert.Rule) {
	for _, name := range sorted(c.Rules) {
		all = append(all, c.Rules[name].Rule)
	}
	return all
}
