package alert

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/auth"
	"mailroom/internal/digest"
)

const (
	// gather is how long a rule gathers failures with one error before the first alert about them, and repeat how
	// long before each further alert. An error without a failure for the time repeat counts as new.
	gather = 30 * time.Second
	repeat = time.Hour
	// downGrace is how long a channel must be down before a rule alerts.
	downGrace = 2 * time.Minute
	// singles is how many tickets get an alert each within singlesIn; one alert combines further ones.
	singles   = 10
	singlesIn = 10 * time.Minute
	// maxListed bounds Alert.Tickets, because groups are stored.
	maxListed = 10
	// These bound the groups of failures of a rule, because they are stored together: maxGroups for the operator's
	// threads, maxOwnerGroups for the threads of one token, maxTokenGroups in a token's rule, maxRuleGroups in all.
	// One group of an owner collects the failures over its limit, so that an owner with many different failures
	// does not hide the failures of others. Each owner may have groupsEach groups in any case, up to maxAnyGroups.
	maxGroups      = 50
	maxOwnerGroups = 10
	maxTokenGroups = 5
	maxRuleGroups  = 100
	groupsEach     = 2
	maxAnyGroups   = 300
	// maxStoredGroups bounds the groups of the rules of all tokens.
	maxStoredGroups = 300
	// maxCounted bounds the owners with a count of their own in RuleState.Singles.
	maxCounted = 100
	// guardAfter is how long a rule waits for the delivery of a thread before it sends its own alert.
	guardAfter = 10 * time.Second
	// digestDelay is how long after the end of its period a digest is sent at the earliest. Transactions that
	// began within the period commit within this time.
	digestDelay = time.Minute
	// tooOld is the age at which rules ignore an event, for example after the server was off.
	tooOld = 24 * time.Hour
)

// Event is a change that rules may turn into alerts.
type Event struct {
	Kind Kind
	At   time.Time
	// Subject names what the event is about: a ticket, an error group, a channel or an agent.
	Subject string
	Ended   bool // the channel is connected again, or the outage is over; with Run: for this run only
	Agent   string
	Thread  string
	Owner   string // owner of the thread
	Run     string
	// DeliverTo is the target to which the thread itself delivers the event, with the run Delivery. It is "" if the
	// thread delivers to none.
	DeliverTo string
	Delivery  string
	Words     string // as in Alert
	Host      string // as in Alert
}

// State is the state between two steps, by the id of the rule. Its size is bounded, see maxStoredGroups. It is stored
// as JSON.
//
// The state of each rule is bounded: the failures gathered by error group, the questions of quiet
// hours (their number, and the ids of the first ten), the channels that are down, the last digest.
// It is in the cursor of the follower, because it belongs to the position. A thread per error
// group, whose queue gathers the failures, would have been a row for each error that an agent
// invents.
type State map[string]*RuleState

// RuleState is the state of one rule that is stored between two steps of the follower.
type RuleState struct {
	Groups map[string]*Group `json:"groups,omitempty"`
	// Singles are how many events of each owner got an alert each since Since.
	Singles map[string]int `json:"singles,omitempty"`
	Since   time.Time      `json:"since,omitzero"`
	// Digest is the time of the last digest; zero if there was none yet. Its period ended at DigestEnd, or, if that is
	// zero because an older version sent it, with the last full hour up to Digest. DigestRun is the run that sends it.
	Digest    time.Time `json:"digest,omitzero"`
	DigestEnd time.Time `json:"digest_end,omitzero"`
	DigestRun string    `json:"digest_run,omitempty"`
	held      bool      // for a step: DigestRun has not ended
}

// Group gathers events for one alert.
type Group struct {
	First      Alert     `json:"first"`           // alert of the first event since the last alert, without Count
	Count      int       `json:"count,omitempty"` // number of events since the last alert
	Due        time.Time `json:"due,omitzero"`    // when the events cause an alert; zero: the group has no new events
	NotifiedAt time.Time `json:"told_at,omitzero"`
	// Runs wait because of the outage that the group is about, at most maxOutageRuns. More says that other runs may
	// wait too.
	Runs []string `json:"runs,omitempty"`
	More bool     `json:"more,omitempty"`
	By   string   `json:"by,omitempty"` // the owner of the run that met the outage first, see ownerKey
}

// Notification is an alert with the target and the time of the run that sends it.
type Notification struct {
	Alert     Alert
	To        string    // target
	Place     string    // thread of the target; "": its own
	Key       string    // idempotency key in the target's thread
	NotBefore time.Time // zero: now
}

// Step takes the events since the last step, in order, and returns the alerts to submit now. It changes s.
// The result depends on nothing else, so a step that was not committed can be made again.
func (s State) Step(rules []Rule, events []Event, now time.Time) (out []Notification) {
	maps.DeleteFunc(s, func(name string, _ *RuleState) bool {
		return !slices.ContainsFunc(rules, func(r Rule) bool { return r.id() == name })
	})
	for i := range rules {
		r := &rules[i]
		if s[r.id()] == nil {
			s[r.id()] = &RuleState{}
		}
		step := ruleStep{rule: r, state: s[r.id()], all: s, now: now}
		for j := range events {
			if e := &events[j]; r.wants(e) && now.Sub(e.At) < tooOld {
				step.accept(e)
			}
		}
		step.notifyDue()
		step.notifyDigest()
		out = append(out, step.out...)
	}
	return out
}

// ruleStep is the work of one rule in a step of the follower.
type ruleStep struct {
	rule  *Rule
	state *RuleState
	all   State
	now   time.Time
	out   []Notification
}

func (s *ruleStep) quietEnd() time.Time { return s.rule.Quiet.End(s.now.In(s.rule.Zone)) }

func (s *ruleStep) isQuiet(t time.Time) bool { return !s.rule.Quiet.End(t.In(s.rule.Zone)).IsZero() }

// alertOf returns the alert of an event.
func (s *ruleStep) alertOf(e *Event) Alert {
	a := Alert{
		Kind: e.Kind, Rule: s.rule.Name, Then: s.rule.To[1:], Text: s.rule.Text, At: e.At.UTC(), Count: 1,
		Zone:  s.rule.Zone.String(),
		Agent: e.Agent, Thread: e.Thread, Run: e.Run, Ended: e.Ended, Words: cutWords(e.Words),
		Host: e.Host,
	}
	switch e.Kind {
	case KindTicket:
		a.Ticket = e.Subject
	case KindChannel:
		a.Channel = e.Subject
	}
	return a
}

// maxGroupWords bounds the words of an event, in bytes of JSON, because groups are stored.
const maxGroupWords = 300

// cutWords cuts a text to what is stored of it.
func cutWords(text string) string {
	for end := ""; ; end = "…" {
		raw, err := json.Marshal(text + end)
		if err != nil || len(raw) <= maxGroupWords {
			return text + end
		}
		text = strings.ToValidUTF8(text[:len(text)*3/4], "")
	}
}

// notify adds an alert. what identifies the alert among the alerts of the rule.
func (s *ruleStep) notify(a Alert, notBefore time.Time, what ...string) {
	a.RuleOf = s.rule.Owner
	key := digest.ID(append([]string{"alert", s.rule.id(), string(a.Kind)}, what...)...)
	s.add(a, notBefore, key)
	at := s.now
	if notBefore.After(at) {
		at = notBefore
	}
	s.remind(a, at, key)
}

// add adds an alert with the key of the words.
func (s *ruleStep) add(a Alert, notBefore time.Time, words ...string) {
	key := words[0]
	if len(words) > 1 {
		key = digest.ID(words...)
	}
	s.out = append(s.out, Notification{Alert: a, To: s.rule.To[0], Place: s.rule.Place, NotBefore: notBefore, Key: key})
}

func (s *ruleStep) accept(e *Event) {
	switch e.Kind {
	case KindTicket:
		switch {
		case s.rule.delivered(e) && s.maySingle(e):
			s.guard(e)
		case s.isQuiet(s.now), s.isQuiet(e.At): // the follower may read e late
			s.gather("tickets"+ownerKey(e), e, s.now.Add(gather))
		case s.maySingle(e):
			s.notify(s.alertOf(e), time.Time{}, e.Subject)
		default:
			s.gather("tickets"+ownerKey(e), e, s.state.Since.Add(singlesIn))
		}
	case KindFailed:
		if s.rule.delivered(e) && s.maySingle(e) {
			s.guard(e)
			return
		}
		s.gather(failedKey(e, e.Subject), e, s.now.Add(gather))
	case KindPaused:
		s.notify(s.alertOf(e), s.quietEnd(), e.Subject, stamp(e.At))
	case KindBudget:
		s.notify(s.alertOf(e), s.quietEnd(), e.Thread, e.Run)
	case KindSchedule: // one fault may pause all schedules of an owner
		s.gather("schedules"+ownerKey(e), e, s.now.Add(gather))
	case KindChannel:
		s.acceptChannel(e)
	case KindOutage:
		s.acceptOutage(e)
	}
}

// guard adds an alert about an event that the thread itself delivers. The alert is due a little later, and its agent
// sends it only if the delivery did not complete: the right to deliver may end before the delivery is sent.
func (s *ruleStep) guard(e *Event) {
	a := s.alertOf(e)
	a.Delivery = e.Delivery
	at := s.now.Add(guardAfter)
	if end := s.quietEnd(); end.After(at) {
		at = end
	}
	s.notify(a, at, e.Subject, e.Delivery)
}

// ownerKey returns the part of a group's key that names the owner of an event; "" for the operator.
func ownerKey(e *Event) string {
	if e.Owner == "" || e.Owner == auth.Operator {
		return ""
	}
	return " of " + e.Owner
}

// failedKey returns the key of a group of failures. No owner has a blank in its name.
func failedKey(e *Event, group string) string { return "failed" + ownerKey(e) + " " + group }

// maySingle counts an event of an owner, and reports whether it gets an alert of its own.
func (s *ruleStep) maySingle(e *Event) bool {
	m := s.state
	if m.Singles == nil || s.now.Sub(m.Since) >= singlesIn {
		m.Since, m.Singles = s.now.UTC(), map[string]int{}
	}
	owner := ownerKey(e)
	if _, known := m.Singles[owner]; !known && len(m.Singles) >= maxCounted {
		owner = " others"
	}
	if m.Singles[owner] >= singles {
		return false
	}
	m.Singles[owner]++
	return true
}

// full reports whether the rule may have no further group of failures for the owner of an event.
func (s *ruleStep) full(e *Event) bool {
	own, begin := 0, failedKey(e, "")
	for key := range s.state.Groups {
		if strings.HasPrefix(key, begin) {
			own++
		}
	}
	most := maxOwnerGroups
	switch {
	case s.rule.ofToken():
		most = maxTokenGroups
	case ownerKey(e) == "":
		return own >= maxGroups
	}
	switch n := len(s.state.Groups); {
	case own >= most || n >= maxAnyGroups:
		return true
	case own < groupsEach:
		return false
	default:
		return n >= maxRuleGroups || s.rule.ofToken() && s.all.tokenGroups() >= maxStoredGroups
	}
}

// tokenGroups returns the number of groups of the rules of tokens.
func (s State) tokenGroups() (n int) {
	for rule, m := range s {
		if owner, _, ok := strings.Cut(rule, "/"); ok && owner != auth.Operator {
			n += len(m.Groups)
		}
	}
	return n
}

// forgetChannels drops the state of channels that are not in known, the channels of the server. If known is nil, it
// drops none.
func (s State) forgetChannels(known []string) {
	if known == nil {
		return
	}
	for _, m := range s {
		maps.DeleteFunc(m.Groups, func(key string, _ *Group) bool {
			name, ok := strings.CutPrefix(key, channelKey)
			return ok && !slices.Contains(known, name)
		})
	}
}

// channelKey begins the keys of groups of channels.
const channelKey = "channel "

// acceptChannel stores that a channel is down. When the channel is connected again, it drops this state, and alerts if
// the rule has alerted about the disconnect.
func (s *ruleStep) acceptChannel(e *Event) {
	key := channelKey + e.Subject
	g := s.state.Groups[key]
	switch {
	case !e.Ended:
		if g == nil {
			s.gather(key, e, e.At.Add(downGrace))
		}
	case g != nil:
		delete(s.state.Groups, key)
		if !g.NotifiedAt.IsZero() {
			s.notify(s.alertOf(e), s.quietEnd(), e.Subject, stamp(e.At))
		}
	}
}

// gather adds an event to the group with this key, whose alert is due at the time due. If the group's failures had an
// alert recently, the alert is due later.
func (s *ruleStep) gather(key string, e *Event, due time.Time) {
	m := s.state
	g := m.Groups[key]
	first := s.alertOf(e)
	// the configuration bounds the channels, and tickets have one group for an owner
	if g == nil && e.Kind == KindFailed && s.full(e) {
		key = "other failed" + ownerKey(e)
		if m.Groups[key] == nil && len(m.Groups) >= 2*maxAnyGroups { // too many owners have groups already
			key = "other failed of others"
		}
		g = m.Groups[key]
		first.Agent, first.Words = "", ""
	}
	if ownerKey(e) != "" && (first.Agent == "" || e.Kind == KindTicket) {
		first.Owner = e.Owner
	}
	if g == nil {
		if m.Groups == nil {
			m.Groups = map[string]*Group{}
		}
		g = &Group{}
		m.Groups[key] = g
	}
	if g.Count == 0 {
		g.First, g.Due = first, due.UTC()
		if next := g.NotifiedAt.Add(repeat).UTC(); e.Kind == KindFailed && next.After(due) {
			g.Due = next
		}
	}
	if g.Count++; e.Kind == KindTicket && g.Count <= maxListed {
		g.First.Tickets = append(g.First.Tickets, e.Subject)
	}
}

// notifyDue adds the alerts of the groups that are due, unless it is quiet, and drops groups that have ended.
func (s *ruleStep) notifyDue() {
	quiet := s.isQuiet(s.now)
	for _, key := range slices.Sorted(maps.Keys(s.state.Groups)) {
		g := s.state.Groups[key]
		switch {
		case g.Count == 0 && g.First.Kind != KindChannel && g.First.Kind != KindOutage && s.now.Sub(g.NotifiedAt) >= repeat:
			delete(s.state.Groups, key)
		case g.Count > 0 && !quiet && !g.Due.After(s.now):
			a := g.First
			a.Text, a.Then, a.Zone = s.rule.Text, s.rule.To[1:], s.rule.Zone.String() // the rule may have changed
			first := a.Ticket
			if a.Count = g.Count; g.Count > 1 {
				a.Ticket = ""
			}
			if g.Count == 1 || g.Count > maxListed {
				a.Tickets = nil
			}
			s.notify(a, time.Time{}, key, stamp(a.At), a.Run, first)
			g.Count, g.Due, g.NotifiedAt = 0, time.Time{}, s.now.UTC()
		}
	}
}

// stamp returns a time as a part of a key.
func stamp(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
