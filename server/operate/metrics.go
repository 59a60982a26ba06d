package operate

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mailroom"
	"mailroom/auth"
	"mailroom/thread"
)

const (
	namespace = "mailroom"
	maxLabels = 3 // most labels of a family of metrics
)

// Metrics collects the metrics of one process and serves them to Prometheus from a registry of its own. It is safe for
// concurrent use.
//
// Its methods are the callbacks of ledger.Observe and engine.Observe. A count costs one lookup in an immutable map and
// one atomic addition.
type Metrics struct {
	// Set by NewMetrics.
	serve    http.Handler
	registry *prometheus.Registry

	ended            *family[prometheus.Counter] // agent, status
	attempts         *family[prometheus.Counter] // agent, outcome, class
	operations       *family[prometheus.Counter] // operation, result
	operationSeconds *family[prometheus.Observer]
	renewals         *family[prometheus.Counter] // result

	runSeconds, enqueueToStart, dueToStart, claimToStart, enqueueToDone prometheus.Histogram
	batchSize, commitSeconds                                            prometheus.Histogram

	runs        *prometheus.GaugeVec // status
	subscribers prometheus.Gauge
	unread      prometheus.Gauge

	cost    *family[prometheus.Counter] // agent
	tokens  *family[prometheus.Counter] // agent, kind
	unknown *family[prometheus.Counter] // agent
	agents  agentLabels
	backlog *backlog
	budgets budgetMetrics

	used, fullest    *prometheus.GaugeVec // quota
	alerts, alertAge *prometheus.GaugeVec // target
}

// NewMetrics returns empty Metrics.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	seconds := prometheus.ExponentialBuckets(0.0005, 4, 12) // half a millisecond to half an hour
	short := prometheus.ExponentialBuckets(0.0001, 2.5, 12) // a tenth of a millisecond to two seconds
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	m := &Metrics{
		registry: r,
		backlog:  newBacklog(),
		budgets:  newBudgetMetrics(r),

		cost: counters(r, "cost_usd_total", "Cost that agents reported with their steps, or that was computed from their tokens.",
			"agent"),
		tokens: counters(r, "tokens_total", "Tokens of models that agents reported with their steps: input and output; "+
			"cache_read and cache_write are parts of input, reasoning of output.", "agent", "kind"),
		unknown: counters(r, "effects_unknown_total",
			"Effects of which an agent found that their outcome is unknown.", "agent"),

		ended: counters(r, "runs_total", "Runs that have finished.", "agent", "status"),
		attempts: counters(r, "attempts_total",
			"Attempts of all workers that ended through this server, by how, and by the class of their failure.",
			"agent", "outcome", "class"),
		operations: counters(r, "operations_total",
			"Operations of the ledger, by their result: ok or the code of the error.", "operation", "result"),
		renewals: counters(r, "lease_renewals_total", "Renewals of this process's lease.", "result"),

		runSeconds: histogram("run_seconds", "From the first start of a run to its end, waits included.", seconds),
		enqueueToStart: histogram("enqueue_to_start_seconds",
			"From the submit of a run to its first claim by a worker of any kind.", seconds),
		dueToStart: histogram("due_to_start_seconds",
			"From when a run could be claimed to its claim by a worker of any kind, each attempt.", seconds),
		claimToStart: histogram("claim_to_start_seconds",
			"From a claim to when the agent was entered, each attempt of the server's own agents.", seconds),
		enqueueToDone: histogram("enqueue_to_done_seconds",
			"From the submit of a run to its completion or failure.", seconds),
		batchSize: histogram("commit_batch_size",
			"Operations that shared one commit.", prometheus.ExponentialBuckets(1, 2, 9)),
		commitSeconds: histogram("commit_seconds", "Of one transaction, until it is durable.", short),

		runs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "runs", Help: "Runs there are, counted in the store.",
		}, []string{"status"}),
		subscribers: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "stream_subscribers", Help: "Streams and waits that are open.",
		}),
		unread: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "stream_unread_bytes",
			Help: "Bytes that readers of streams and sockets have not taken yet.",
		}),
	}
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "operation_seconds", Buckets: short,
		Help: "From the call of an operation to its answer; not of claims that stood until something was due.",
	}, []string{"operation"})
	m.operationSeconds = newFamily(1, took.WithLabelValues)
	m.used = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "quota_used",
		Help: "What all tokens together have of what quotas bound, without the operator.",
	}, []string{"quota"})
	m.fullest = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "quota_fullest_ratio",
		Help: "Use by limit of the token that is nearest to its quota, 0 without limits.",
	}, []string{"quota"})
	m.alerts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "alerts_waiting", Help: "Alerts of a target that are not sent yet, counted up to 1,000.",
	}, []string{"target"})
	m.alertAge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "alert_oldest_seconds",
		Help: "Age of the oldest alert of a target that is not sent yet, 0 without one.",
	}, []string{"target"})
	r.MustRegister(took, m.runs, m.subscribers, m.unread, m.used, m.fullest, m.alerts, m.alertAge, m.backlog)
	m.serve = promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return m
}

func counters(r *prometheus.Registry, name, help string, labels ...string) *family[prometheus.Counter] {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	r.MustRegister(v)
	return newFamily(len(labels), v.WithLabelValues)
}

// Operation is for ledger.Observe.
func (m *Metrics) Operation(name string, err error, took time.Duration) {
	m.operation(name, err, took)
	if former := formerName(name); former != "" {
		m.operation(former, err, took)
	}
}

func (m *Metrics) operation(name string, err error, took time.Duration) {
	m.operations.of(name, result(err), "").Inc()
	if took > 0 {
		m.operationSeconds.of(name, "", "").Observe(took.Seconds())
	}
}

// formerName returns the name that an operation had in the version before, or "". Queries of dashboards with that name
// go on for one version; the operation counts under both.
func formerName(name string) string {
	switch name {
	case "end_lease":
		return "bury"
	case "adopt_unclaimed":
		return "orphan"
	case "expire_notifications":
		return "lapse"
	case "append_entry":
		return "note"
	case "release_sticky":
		return "free"
	case "drop_definitions", "end_workers":
		return "forget"
	case "check_clock", "replan":
		return "clock"
	case "create_token":
		return "create token"
	case "set_quotas":
		return "set quotas"
	case "tokens_used":
		return "tokens used"
	case "sign_in":
		return "sign in"
	case "sign_out":
		return "sign out"
	case "end_replaced":
		return "end replaced"
	case "end_probe":
		return "end probe"
	case "drop_summaries":
		return "drop summaries"
	}
	return ""
}

// result returns "ok", the code of err, or "withdrawn" for an operation that its caller
// cancelled.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case mailroom.CodeOf(err) == mailroom.CodeInternal &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return "withdrawn"
	}
	return string(mailroom.CodeOf(err))
}

// Commit is for ledger.Observe.
func (m *Metrics) Commit(operations int, took time.Duration) {
	m.batchSize.Observe(float64(operations))
	m.commitSeconds.Observe(took.Seconds())
}

// Ended is for ledger.Observe.
func (m *Metrics) Ended(r *mailroom.Run) {
	m.ended.of(m.agents.of(r.Agent), string(r.Status), "").Inc()
	if !r.StartedAt.IsZero() {
		m.runSeconds.Observe(r.FinishedAt.Sub(r.StartedAt).Seconds())
	}
	if r.Status != mailroom.StatusCancelled {
		m.enqueueToDone.Observe(r.FinishedAt.Sub(r.CreatedAt).Seconds())
	}
}

// AttemptStarted is for ledger.Observe.
func (m *Metrics) AttemptStarted(a thread.AttemptStart) {
	if a.Attempt == 1 {
		m.enqueueToStart.Observe(since(a.Created, a.At))
	}
	m.dueToStart.Observe(since(a.Due, a.At))
}

// AttemptEnded is for ledger.Observe.
func (m *Metrics) AttemptEnded(a thread.AttemptEnd) {
	m.attempts.of(m.agents.of(a.Agent), string(a.Outcome), string(a.Class)).Inc()
}

// AttemptUsed is for ledger.Observe.
func (m *Metrics) AttemptUsed(u thread.AttemptUse) {
	agent := m.agents.of(u.Agent)
	add := func(to *family[prometheus.Counter], kind string, n float64) {
		if n > 0 && !math.IsInf(n, 1) { // a counter never falls, whatever an agent reports
			to.of(agent, kind, "").Add(n)
		}
	}
	add(m.cost, "", u.Usage.CostUSD)
	add(m.tokens, "input", float64(u.Usage.InputTokens))
	add(m.tokens, "output", float64(u.Usage.OutputTokens))
	add(m.tokens, "cache_read", float64(u.Usage.CacheReadTokens))
	add(m.tokens, "cache_write", float64(u.Usage.CacheWriteTokens))
	add(m.tokens, "reasoning", float64(u.Usage.ReasoningTokens))
	add(m.unknown, "", float64(u.UnknownEffects))
}

// Entered is for engine.Observe, with the times of an engine.Start.
func (m *Metrics) Entered(claimed, entered time.Time) {
	m.claimToStart.Observe(since(claimed, entered))
}

// since returns seconds, never negative: the times may come from different clocks.
func since(from, to time.Time) float64 { return max(to.Sub(from).Seconds(), 0) }

// Renewal is for engine.Observe.
func (m *Metrics) Renewal(err error) { m.renewals.of(result(err), "", "").Inc() }

// present sets the gauges that a scrape reads from the store.
func (m *Metrics) present(runs map[mailroom.Status]int, subscribers int, unread int64) {
	for status, n := range runs {
		m.runs.WithLabelValues(string(status)).Set(float64(n))
	}
	m.subscribers.Set(float64(subscribers))
	m.unread.Set(float64(unread))
}

// quotaLevel is the use of one quota.
type quotaLevel struct {
	Used    int64   // use of all tokens together
	Fullest float64 // largest use/limit of a token
}

// uses sets the use of quotas; a scrape calls it.
func (m *Metrics) uses(levels map[auth.Quota]quotaLevel) {
	for q, l := range levels {
		m.used.WithLabelValues(string(q)).Set(float64(l.Used))
		m.fullest.WithLabelValues(string(q)).Set(l.Fullest)
	}
}

// waitingAlerts counts the alerts that a target has not sent yet.
type waitingAlerts struct {
	Target string
	Alerts int
	Oldest time.Duration // age of the oldest; 0: none
}

// waiting sets what the targets of alerts have not sent yet; a scrape calls it.
func (m *Metrics) waiting(targets []waitingAlerts) {
	for _, t := range targets {
		m.alerts.WithLabelValues(t.Target).Set(float64(t.Alerts))
		m.alertAge.WithLabelValues(t.Target).Set(t.Oldest.Seconds())
	}
}

// ServeHTTP serves all metrics in the text format of Prometheus.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.serve.ServeHTTP(w, r) }

// family looks up the metrics of one name by up to three labels, without a lock or an
// allocation. A new combination of labels, which is rare, copies the map.
type family[M any] struct {
	create func(labels ...string) M
	labels int
	made   atomic.Pointer[map[[maxLabels]string]M]
}

func newFamily[M any](labels int, create func(...string) M) *family[M] {
	f := &family[M]{create: create, labels: labels}
	f.made.Store(&map[[maxLabels]string]M{})
	return f
}

func (f *family[M]) of(first, second, third string) M {
	key := [maxLabels]string{first, second, third}
	for {
		made := f.made.Load()
		if m, ok := (*made)[key]; ok {
			return m
		}
		more := maps.Clone(*made)
		labels := []string{first, second, third} // a slice of key would move it to the heap in every call
		more[key] = f.create(labels[:f.labels]...)
		if f.made.CompareAndSwap(made, &more) {
			return more[key]
		}
	}
}

// Describe sends the descriptions of all metrics, as a [prometheus.Collector] does.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }
