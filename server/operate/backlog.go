package operate

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

const (
	// maxAgentLabels is how many agents have metrics of their own. A worker may serve agents of any names.
	maxAgentLabels = 500
	// otherAgents is the label of the agents beyond these. No agent can have this name.
	otherAgents = "(others)"

	// maxTickets and maxTicketBytes bound the open tickets that a scrape counts, of each kind.
	maxTickets     = 1000
	maxTicketBytes = 4 << 20
)

// agentLabels bounds the agents that metrics name, to the first ones.
type agentLabels struct {
	known atomic.Pointer[map[string]bool]
}

func (l *agentLabels) of(agent string) string {
	for {
		known := l.known.Load()
		switch {
		case known != nil && (*known)[agent]:
			return agent
		case known != nil && len(*known) >= maxAgentLabels:
			return otherAgents
		}
		more := map[string]bool{agent: true}
		if known != nil {
			maps.Copy(more, *known)
		}
		l.known.CompareAndSwap(known, &more)
	}
}

// queueKey groups queued runs.
type queueKey struct {
	agent string
	cause thread.Cause
}

// ticketLevel is what is open of one kind.
type ticketLevel struct {
	open   int
	oldest time.Duration // age; 0: none
}

// backlogLevels are what a store says of work that waits.
type backlogLevels struct {
	due     time.Duration // since when the first run could be claimed; 0: none is due
	queue   map[queueKey]int
	tickets map[mailroom.TicketKind]ticketLevel
}

// backlog collects the levels that a scrape has read last. They are replaced as a whole, so that what is gone is not
// shown.
type backlog struct {
	levels                      atomic.Pointer[backlogLevels] // nil: none yet
	due, queue, tickets, oldest *prometheus.Desc
}

func newBacklog() *backlog {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &backlog{
		due: desc("oldest_due_seconds", "Time for which the first due run has waited for a worker, 0 without one. "+
			"Runs that wait for their concurrency key are not due."),
		queue: desc("queue_runs", "Queued runs, the oldest 500, by agent and by what each waits for in the end.",
			"agent", "cause"),
		tickets: desc("tickets_open", "Open tickets that a person decides, counted up to 1,000 or 4 MiB.", "kind"),
		oldest: desc("ticket_oldest_seconds", "Age of the oldest open ticket that a person decides, 0 without one.",
			"kind"),
	}
}

// Describe implements [prometheus.Collector].
func (b *backlog) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.due, b.queue, b.tickets, b.oldest} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (b *backlog) Collect(to chan<- prometheus.Metric) {
	now := b.levels.Load()
	if now == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(b.due, now.due.Seconds())
	for k, n := range now.queue {
		gauge(b.queue, float64(n), k.agent, string(k.cause))
	}
	for kind, l := range now.tickets {
		gauge(b.tickets, float64(l.open), string(kind))
		gauge(b.oldest, l.oldest.Seconds(), string(kind))
	}
}

// readBacklog reads what waits. Its cost grows with the bounds above and not with the history.
func readBacklog(rd store.Reader, label func(agent string) string) (*backlogLevels, error) {
	now := rd.Now()
	out := &backlogLevels{queue: map[queueKey]int{}, tickets: map[mailroom.TicketKind]ticketLevel{}}
	counts, err := rd.Count(store.CountQuery{})
	if err != nil {
		return nil, err
	}
	if !counts.Due.IsZero() {
		out.due = max(now.Sub(counts.Due), 0)
	}
	for _, kind := range []mailroom.TicketKind{mailroom.TicketApproval, mailroom.TicketInput} {
		rows, err := rd.Tickets(store.TicketQuery{
			States: []mailroom.TicketState{mailroom.TicketOpen}, Kinds: []mailroom.TicketKind{kind}, Oldest: true,
			Limit: maxTickets, Bytes: maxTicketBytes,
		})
		if err != nil {
			return nil, err
		}
		level := ticketLevel{open: len(rows)}
		if len(rows) > 0 && !rows[0].OpenedAt.IsZero() {
			level.oldest = max(now.Sub(rows[0].OpenedAt), 0)
		}
		out.tickets[kind] = level
	}
	queued, err := rd.Runs(store.RunQuery{
		Statuses: []mailroom.Status{mailroom.StatusQueued}, Oldest: true, Limit: maxWaits, Bytes: scanBytes,
	})
	if err != nil {
		return nil, err
	}
	waits, err := ledger.WaitsFor(rd, now, queued, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range queued {
		if of := waits[r.ID]; len(of) > 0 {
			out.queue[queueKey{label(r.Agent), of[len(of)-1].Cause}]++
		}
	}
	return out, nil
}
