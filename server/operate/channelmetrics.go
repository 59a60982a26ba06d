package operate

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mailroom/internal/recovery"
)

// ChannelMetrics has the numbers of one channel.
type ChannelMetrics struct {
	Name        string
	State       string
	Adapters    int // connection attempts
	LeftBehind  int // adapters that did not stop in time
	Reconnects  int
	Attempts    int // failed attempts in a row
	Downtime    time.Duration
	LastSuccess time.Time // zero: never
	Unhandled   int
}

// Channels registers the metrics of channels, which a scrape reads with look. states are
// all states of a channel. It is called at most once.
func (m *Metrics) Channels(states []string, look func() []ChannelMetrics) {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_channel_"+name, help, append([]string{"channel"}, more...), nil)
	}
	c := &channels{
		look: look, states: states,
		state:      desc("state", "1 for the state that a channel is in, 0 for the others.", "state"),
		adapters:   desc("adapters_total", "Times that the connection was made, or tried."),
		leftBehind: desc("left_behind", "Adapters that were told to end and have not."),
		reconnects: desc("reconnects_total", "Times that a channel was connected again."),
		attempts:   desc("failed_attempts", "Tries in a row that have failed."),
		downtime:   desc("downtime_seconds_total", "For how long a channel was not connected."),
		success:    desc("last_success_timestamp_seconds", "When the platform last answered to who receives."),
		unhandled:  desc("unhandled", "Messages that the platform was not told to be done."),
	}
	m.registry.MustRegister(c)
}

type channels struct {
	look   func() []ChannelMetrics
	states []string

	state, adapters, leftBehind, reconnects, attempts, downtime, success, unhandled *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *channels) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.state, c.adapters, c.leftBehind, c.reconnects, c.attempts, c.downtime, c.success, c.unhandled,
	} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *channels) Collect(to chan<- prometheus.Metric) {
	// The library calls it on a goroutine of its own.
	defer recovery.Handle(nil, "the numbers of channels", func(*recovery.Panic) {
		to <- prometheus.NewInvalidMetric(c.state, errors.New("the numbers of channels could not be collected"))
	})
	for _, n := range c.look() {
		tell := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, value, append([]string{n.Name}, more...)...)
		}
		for _, s := range c.states {
			value := 0.0
			if s == n.State {
				value = 1
			}
			tell(c.state, prometheus.GaugeValue, value, s)
		}
		tell(c.adapters, prometheus.CounterValue, float64(n.Adapters))
		tell(c.leftBehind, prometheus.GaugeValue, float64(n.LeftBehind))
		tell(c.reconnects, prometheus.CounterValue, float64(n.Reconnects))
		tell(c.attempts, prometheus.GaugeValue, float64(n.Attempts))
		tell(c.downtime, prometheus.CounterValue, n.Downtime.Seconds())
		if !n.LastSuccess.IsZero() {
			tell(c.success, prometheus.GaugeValue, float64(n.LastSuccess.UnixMilli())/1000)
		}
		tell(c.unhandled, prometheus.GaugeValue, float64(n.Unhandled))
	}
}
