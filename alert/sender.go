package alert

import (
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// An alert may wait for its target for a day, and its reason may end in that time. So the agent checks the rule, the
// right of the owner to deliver to the target, and the question when it sends the alert. An alert to a chat then
// waits in the queue of the chat's channel, so the channel checks all three again when it sends the message.

// ended returns why an alert need not be sent any more, "" if it must be: its rule was removed, or names the target
// no longer.
func (o *Options) ended(r store.Reader, what *Alert, threadID string, now time.Time) (why string, err error) {
	if what.Rule == "" { // a reply or a test
		return "", nil
	}
	_, owner, _ := reserved.AlertPlace(threadID)
	asked := askedRule{what.Rule, what.RuleOf, owner, o.Name, what.Reminder > 0}
	return ruleEnded(r, o.Rules, asked, Allowed{o.Name: o.Tokens}, now)
}

// askedRule is a rule for which an alert waits.
type askedRule struct {
	name    string
	of      string // see Alert.RuleOf
	owner   string // owner of the thread in which the alert waits
	target  string
	reminds bool // the alert is a reminder
}

// ruleEnded is Options.ended. fixed are the rules of the configuration, nil if they are not known. If the same token
// removed a rule and made a rule with the same name, ruleEnded takes them for one rule, because rules have no id.
func ruleEnded(r store.Reader, fixed []Rule, asked askedRule, targets Allowed, now time.Time) (why string, err error) {
	if asked.of == "" && fixed == nil {
		return "", nil
	}
	names := func(to []string, reminds bool) string {
		switch {
		case asked.reminds && !reminds:
			return "rule " + asked.name + " sends no reminders any more"
		case slices.Contains(to, asked.target):
			return ""
		}
		return "rule " + asked.name + " does not name target " + asked.target + " any more"
	}
	for i := range fixed {
		if asked.of == "" && fixed[i].Name == asked.name {
			return names(fixed[i].To, fixed[i].Remind > 0), nil
		}
	}
	at := RulesCursor(asked.owner)
	rows, err := r.Cursors(store.CursorQuery{Channel: at.Channel, Identities: []string{at.Identity}})
	if err != nil {
		return "", err
	}
	rights, err := ReadRights(r, targets, now, asked.owner)
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		all, err := ReadRules(row.Position)
		if err != nil {
			return "", err
		}
		for _, rule := range rights.Keep(all, asked.owner, row.MovedAt) {
			if rule.Name == asked.name {
				return names(rule.To, rule.Remind != ""), nil
			}
		}
	}
	return "rule " + asked.name + " was removed", nil
}

// labelsOf returns the labels of an alert that is sent, see Message.
func labelsOf(what *Alert, about *subject, o *Options) map[string]string {
	labels := map[string]string{LabelAlert: o.Name, labelThread: about.thread, labelPlace: o.Place}
	if what.Rule != "" {
		labels[labelRule], labels[labelRuleOf] = what.Rule, what.RuleOf
	}
	if about.ticket != nil {
		labels[labelTicket] = about.ticket.ID
	}
	return labels
}

// Sender decides about alerts that a target sends later, by the labels of its messages.
type Sender struct {
	Targets Allowed
	Places  map[string]string // places of the targets, see Options
	Rules   []Rule            // see Options
}

// Ended returns why a message with labels need not be sent any more, "" if it must be. Labels of older versions lack
// some facts; Ended does not check a fact that the labels lack.
func (s *Sender) Ended(r store.Reader, labels map[string]string, now time.Time) (why string, err error) {
	target, threadID := labels[LabelAlert], labels[labelThread]
	if target == "" || threadID == "" {
		return "", nil
	}
	if place, ok := s.Places[target]; !ok || place != labels[labelPlace] {
		return "target " + target + " was removed, or is another one than the alert was sent to", nil
	}
	threads, err := r.Threads(store.ThreadQuery{IDs: []string{threadID}})
	if err != nil {
		return "", err
	}
	for _, t := range threads {
		rights, err := ReadRights(r, s.Targets, now, t.Owner)
		if err != nil {
			return "", err
		}
		if !rights.Open(t.ID, t.CreatedAt) {
			return "token " + t.Owner + " may not deliver to target " + target + " any more", nil
		}
	}
	if rule := labels[labelRule]; rule != "" {
		_, owner, _ := reserved.AlertPlace(threadID)
		if why, err := ruleEnded(r, s.Rules, askedRule{rule, labels[labelRuleOf], owner, target, false}, s.Targets,
			now); err != nil || why != "" {
			return why, err
		}
	}
	return questionEnded(r, labels[labelTicket], now)
}

// questionEnded returns why an alert about a ticket is not needed any more, "" if it is, or if ticket is "".
func questionEnded(r store.Reader, ticket string, now time.Time) (why string, err error) {
	if ticket == "" {
		return "", nil
	}
	rows, err := r.Tickets(store.TicketQuery{IDs: []string{ticket}})
	switch {
	case err != nil:
		return "", err
	case len(rows) == 0:
		return "the question no longer exists", nil
	}
	if state := rows[0].StateAt(now); state != mailroom.TicketOpen {
		return "the question is " + string(state), nil
	}
	return "", nil
}
