// Package budget has the rules of budgets over a period: what an agent, an owner or a thread may use in a day or a
// month, when that is spent, and what a person is asked then.
package budget

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"mailroom"
)

// Limits are the budgets of one agent or owner. A zero budget bounds nothing.
type Limits struct {
	Day   mailroom.Budget `json:"day,omitzero"`
	Month mailroom.Budget `json:"month,omitzero"`
	Run   mailroom.Budget `json:"run,omitzero"` // of each run whose submit says none
}

// ofRun is the name of the budget of each run, as a period is the name of another one.
const ofRun = "run"

// Of returns the budget of a period.
func (l Limits) Of(p Period) mailroom.Budget {
	if p == Month {
		return l.Month
	}
	return l.Day
}

// IsZero reports whether l limits nothing.
func (l Limits) IsZero() bool { return l.Day.IsZero() && l.Month.IsZero() && l.Run.IsZero() }

// Set sets the budget of a period, or of each run, by its name.
func (l *Limits) Set(name, text string) error {
	b, err := mailroom.ParseBudget(text)
	if err != nil {
		return err
	}
	if !b.Until.IsZero() {
		return mailroom.Errorf(mailroom.CodeInvalid, "budget of a %s: %q has a time; leave it out: the budget begins again "+
			"with each %s", name, text, name)
	}
	switch name {
	case string(Day):
		l.Day = b
	case string(Month):
		l.Month = b
	case ofRun:
		l.Run = b
	default:
		return mailroom.Errorf(mailroom.CodeInvalid, "unknown period %q of a budget; use day, month or run", name)
	}
	return nil
}

// Texts returns the budgets as Set reads them, by the name of their period.
func (l Limits) Texts() map[string]string {
	out := map[string]string{}
	for _, p := range Periods() {
		if b := l.Of(p); !b.IsZero() {
			out[string(p)] = b.String()
		}
	}
	if !l.Run.IsZero() {
		out[ofRun] = l.Run.String()
	}
	return out
}

// Smaller returns the budget that bounds what a or b bounds: the smaller one of two amounts.
func Smaller(a, b mailroom.Budget) mailroom.Budget {
	least := func(a, b int64) int64 {
		if a == 0 || b > 0 && b < a {
			return b
		}
		return a
	}
	a.Amounts = mailroom.Amounts{MicroUSD: least(a.MicroUSD, b.MicroUSD), Tokens: least(a.Tokens, b.Tokens),
		Turns: least(a.Turns, b.Turns)}
	return a
}

// UsedBy returns what the usage of a step counts of a budget. A step that reports a usage is a turn.
func UsedBy(u mailroom.Usage) mailroom.Amounts {
	tokens := func(n int64) int64 { return min(max(n, 0), math.MaxInt64/1_000_000) }
	usd := u.CostUSD
	if !(usd > 0) { // also a value that is no number
		usd = 0
	}
	a := mailroom.Dollars(min(usd, 1e9))
	a.Tokens = tokens(u.InputTokens) + tokens(u.OutputTokens)
	if u != (mailroom.Usage{}) {
		a.Turns = 1
	}
	return a
}

// UsedOf returns what the usage of a step counts of a pool. If its cost is not known, it counts as all dollars of the
// configuration: otherwise the bound would never be reached.
func (p *Pool) UsedOf(u mailroom.Usage, unpriced bool) mailroom.Amounts {
	a := UsedBy(u)
	if unpriced {
		a.MicroUSD = max(a.MicroUSD, p.Budget.MicroUSD)
	}
	return a
}

// The kinds of scopes.
const (
	Agent  = "agent"
	Owner  = "owner" // of threads: a token
	Thread = "thread"
)

// Scope has a budget.
type Scope struct {
	Kind string
	Name string
}

// String returns the scope as people write it, such as "agent codex".
func (s Scope) String() string { return s.Kind + " " + s.Name }

// key names the scope and a period in ids and rows. No name of an agent or an owner has a colon. The id of a thread may
// have some, and be long, so its digest stands for it.
func (s Scope) key(p Period) string {
	name := s.Name
	if s.Kind == Thread {
		name = fmt.Sprintf("%.16x", sha256.Sum256([]byte(name)))
	}
	return s.Kind + ":" + name + ":" + string(p)
}

// ParseKey returns the scope and the period of a [Pool.Key]. The Name of a thread is the digest in the key.
func ParseKey(key string) (s Scope, p Period, ok bool) {
	words := strings.Split(key, ":")
	if len(words) != 3 {
		return s, p, false
	}
	s, p = Scope{words[0], words[1]}, Period(words[2])
	periods := Periods()
	if s.Kind == Thread {
		periods = ThreadPeriods()
	}
	known := slices.Contains([]string{Agent, Owner, Thread}, s.Kind)
	return s, p, known && s.Name != "" && slices.Contains(periods, p)
}

// Pool is what a scope may use in one period, and what it has used.
type Pool struct {
	Scope  Scope
	Period Period
	Begin  time.Time
	End    time.Time
	Budget mailroom.Budget // of the configuration
	Used   mailroom.Amounts
	Raised mailroom.Amounts // what a person has added for this period
}

// PoolsOf returns the pools of a scope at now, with nothing used.
func PoolsOf(s Scope, l Limits, now time.Time, zone *time.Location) (pools []Pool) {
	for _, p := range Periods() {
		if b := l.Of(p); !b.IsZero() {
			begin, end := p.Bounds(now, zone)
			pools = append(pools, Pool{Scope: s, Period: p, Begin: begin, End: end, Budget: b})
		}
	}
	return pools
}

// Key names the scope and the period, whenever it began: it is the same in the next period.
func (p *Pool) Key() string { return p.Scope.key(p.Period) }

// Every says in which time a budget may be used.
func (p Period) Every() string {
	if p == Life {
		return "in its life"
	}
	return "a " + string(p)
}

// Text says what the scope may use in the period, with what was added: "thread trip, 5.00 usd a day".
func (p *Pool) Text() string { return fmt.Sprintf("%s, %s %s", p.Scope, p.Limit(), p.Period.Every()) }

// Limit returns what may be used in the period: the budget, and what was added to a bound that it has.
func (p *Pool) Limit() mailroom.Budget {
	return mailroom.Budget{Amounts: p.Budget.Plus(p.Budget.Of(p.Raised))}
}

// Left returns what is left of each bound, and 0 for what has no bound.
func (p *Pool) Left() mailroom.Amounts { return p.Limit().Left(p.Used).Positive() }

// The states of a pool.
const (
	open  = "open"
	Low   = "low"   // 80 % of a bound are used
	Spent = "spent" // a bound is reached: nothing starts
)

// State returns the state of the pool.
func (p *Pool) State() string {
	switch limit := p.Limit(); {
	case limit.Over(p.Used) != "":
		return Spent
	case limit.Low(p.Used) != "":
		return Low
	}
	return open
}

// MaxRaise bounds what one raise adds to each bound: 9,223,372 dollars, or 9.2 trillion tokens or turns. A row of a
// store adds no more at once.
const MaxRaise = math.MaxInt64 / 1_000_000

// MaxRaiseText names [MaxRaise] as people write it.
const MaxRaiseText = "9,223,372 usd, and 9 trillion tokens or turns"

// Multiple returns n as often as times says, at most MaxRaise. Both are not negative.
func Multiple(n, times int64) int64 {
	if n > 0 && times > MaxRaise/n {
		return MaxRaise
	}
	return n * times
}

// Raise returns by how much a person is asked to raise a pool that is spent: by the budget of each bound that is
// reached, as often as the pool needs it to go on, and at most MaxRaise.
func (p *Pool) Raise() (by mailroom.Amounts) {
	limit := p.Limit()
	one := func(budget, limit, used int64) int64 {
		if budget == 0 || used < limit {
			return 0
		}
		return Multiple(budget, (used-limit)/budget+1)
	}
	return mailroom.Amounts{
		MicroUSD: one(p.Budget.MicroUSD, limit.MicroUSD, p.Used.MicroUSD),
		Tokens:   one(p.Budget.Tokens, limit.Tokens, p.Used.Tokens),
		Turns:    one(p.Budget.Turns, limit.Turns, p.Used.Turns),
	}
}

// KindLow is the kind of the entry that says that a budget is low. Its body is a [Notice].
const KindLow = "x.budget.low"

// Notice is what people learn about a pool: once that it is low, and once for each limit that it is spent.
type Notice struct {
	State  string           `json:"state"` // Low or Spent
	Kind   string           `json:"kind"`
	Name   string           `json:"name"`
	Period Period           `json:"period"`
	Begin  time.Time        `json:"begin"`
	End    time.Time        `json:"end"`
	Zone   string           `json:"zone"`
	Budget mailroom.Amounts `json:"budget"` // of the configuration
	Limit  mailroom.Amounts `json:"limit"`  // with what was added
	Used   mailroom.Amounts `json:"used"`
	Raise  mailroom.Amounts `json:"raise,omitzero"` // by how much to raise the limit
}

// Notice returns what people should learn about the pool now; ok is false while it is open. key identifies the notice
// in all repeats of it: a pool that was raised and is spent again asks again.
func (p *Pool) Notice(zone *time.Location) (n Notice, key string, ok bool) {
	state := p.State()
	if state == open {
		return n, "", false
	}
	n = Notice{
		State: state, Kind: p.Scope.Kind, Name: p.Scope.Name, Period: p.Period, Begin: p.Begin, End: p.End,
		Zone: zone.String(), Budget: p.Budget.Amounts, Limit: p.Limit().Amounts, Used: p.Budget.Of(p.Used),
	}
	key = fmt.Sprintf("%s %s", state, p.Begin.UTC().Format(time.RFC3339))
	if state == Spent {
		n.Raise = p.Raise()
		key += " " + n.Limit.String()
	}
	return n, key, true
}

// Scope returns what the notice is about.
func (n *Notice) Scope() Scope { return Scope{n.Kind, n.Name} }

// Pool returns the pool of the notice, with nothing used.
func (n *Notice) Pool() Pool {
	return Pool{Scope: n.Scope(), Period: n.Period, Begin: n.Begin, End: n.End, Budget: mailroom.Budget{Amounts: n.Budget}}
}

// Again returns when the next period begins, as people read it in a zone of the IANA database: "00:00 Europe/Berlin",
// with the date for a month.
func (p *Pool) Again(zone string) string {
	place, err := time.LoadLocation(zone)
	if err != nil {
		place, zone = time.UTC, "UTC"
	}
	form := "15:04"
	if p.Period == Month {
		form = "2 January 15:04"
	}
	return p.End.In(place).Format(form) + " " + zone
}

// Again returns when what waits goes on by itself, as people read it.
func (n *Notice) Again() string {
	p := n.Pool()
	return p.Again(n.Zone)
}

// Ends reports whether a next period begins.
func (n *Notice) Ends() bool { return n.Period != Life }

// Question asks whether to raise a budget that is spent.
func (n *Notice) Question() string {
	if !n.Ends() {
		return fmt.Sprintf("The budget of %s is spent: %s of %s %s. What waits for it goes on when it is raised. "+
			"Raise the budget by %s?", n.Scope(), n.Used, n.Limit, n.Period.Every(), n.Raise)
	}
	return fmt.Sprintf("The budget of %s is spent: %s of %s a %s. What waits for it goes on at %s. "+
		"Raise the budget of this %s by %s?", n.Scope(), n.Used, n.Limit, n.Period, n.Again(), n.Period, n.Raise)
}

// Warning says that a budget is low.
func (n *Notice) Warning() string {
	who := upper(n.Scope().String())
	return fmt.Sprintf("%s has used %s of its budget of %s %s.", who, n.Used, n.Limit, n.Period.Every())
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
