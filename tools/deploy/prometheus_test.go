package deploy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// alert is a rule of rules.yml.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "prometheus/rules.yml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// exposed returns the labels of each metric that a server exposes. server/operate checks that list.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"up": nil, "process_resident_memory_bytes": nil}
	for line := range strings.Lines(read(t, "prometheus/metrics.txt")) {
		fields := strings.Fields(line)
		name, kind, labels := fields[0], fields[1], fields[2:]
		if kind != "histogram" {
			all[name] = labels
			continue
		}
		all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = append(labels, "le"), labels, labels
	}
	return all
}

// checkQuery checks that a query is valid and selects only metrics and labels that a server has.
func checkQuery(t *testing.T, of, query string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %q: %v", of, query, err)
		return
	}
	have := exposed(t)
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels, known := have[v.Name]
		if !known {
			t.Errorf("%s: no server has the metric %s", of, v.Name)
		}
		for _, m := range v.LabelMatchers {
			if m.Name != "__name__" && m.Name != "job" && m.Name != "instance" && !slices.Contains(labels, m.Name) {
				t.Errorf("%s: %s has no label %s", of, v.Name, m.Name)
			}
		}
		return nil
	})
}

func TestTheDashboardAsksForMetricsThatAServerHas(t *testing.T) {
	var d struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/mailroom.json")), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	queries := 0
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q has no name of its own, or no query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries++
			checkQuery(t, p.Title, strings.NewReplacer("$job", "mailroom", "$__rate_interval", "5m").Replace(target.Expr))
		}
	}
	if queries < 20 {
		t.Errorf("%d queries", queries)
	}
}

// ruleState has the samples of a state on which an alert fires, and of one beside it on which it must not.
type ruleState struct{ fires, calm string }

// ruleStates returns the states of each alert. Samples are a minute apart, for two hours.
func ruleStates() map[string]ruleState {
	return map[string]ruleState{
		"MailroomDown": {
			`up{job="mailroom"} 0x120`,
			`up{job="mailroom"} 1x120
				up{job="other"} 0x120`,
		},
		"MailroomQueueStuck": {
			`mailroom_oldest_due_seconds 400x120`,
			`mailroom_oldest_due_seconds 200x120`,
		},
		"MailroomNoWorker": {
			`mailroom_queue_runs{agent="a",cause="worker"} 1x120`,
			`mailroom_queue_runs{agent="a",cause="slot"} 9x120`,
		},
		"MailroomAgentPaused": {
			`mailroom_queue_runs{agent="a",cause="pause"} 1x120`,
			`mailroom_queue_runs{agent="a",cause="decision"} 9x120`,
		},
		"MailroomRunsFail": {
			`mailroom_runs_total{agent="a",status="failed"} 0+2x120
				mailroom_runs_total{agent="a",status="completed"} 0+3x120`,
			`mailroom_runs_total{agent="a",status="failed"} 0+1x120
				mailroom_runs_total{agent="a",status="completed"} 0+50x120`,
		},
		"MailroomTicketUnanswered": {
			`mailroom_ticket_oldest_seconds{kind="approval"} 4000x120`,
			`mailroom_ticket_oldest_seconds{kind="approval"} 100x120`,
		},
		"MailroomEffectUnknown": {
			`mailroom_effects_unknown_total{agent="a"} 0x100 1x20`,
			`mailroom_effects_unknown_total{agent="a"} 5x120`,
		},
		"MailroomCostHigh": {
			`mailroom_cost_usd_total{agent="a"} 0+0.5x120`,
			`mailroom_cost_usd_total{agent="a"} 0+0.05x120`,
		},
		"MailroomCommitsSlow": {
			`mailroom_commit_seconds_bucket{le="0.5"} 0+1x120
				mailroom_commit_seconds_bucket{le="1"} 0+9x120
				mailroom_commit_seconds_bucket{le="+Inf"} 0+9x120`,
			`mailroom_commit_seconds_bucket{le="0.5"} 0+9x120
				mailroom_commit_seconds_bucket{le="+Inf"} 0+9x120`,
		},
		"MailroomLeaseRenewalsFail": {
			`mailroom_lease_renewals_total{result="unavailable"} 0+1x120`,
			`mailroom_lease_renewals_total{result="ok"} 0+12x120`,
		},
		"MailroomChannelDown": {
			`mailroom_channel_state{channel="c",state="parked"} 1x120`,
			`mailroom_channel_state{channel="c",state="parked"} 0x120
				mailroom_channel_state{channel="c",state="connected"} 1x120`,
		},
		"MailroomAlertsWait": {
			`mailroom_alert_oldest_seconds{target="t"} 700x120`,
			`mailroom_alert_oldest_seconds{target="t"} 10x120`,
		},
		"MailroomQuotaNearlyFull": {
			`mailroom_quota_fullest_ratio{quota="threads"} 0.95x120`,
			`mailroom_quota_fullest_ratio{quota="threads"} 0.5x120`,
		},
	}
}

// evaluator evaluates the expression of a rule.
type evaluator struct {
	t      *testing.T
	engine *promql.Engine
}

// fires returns the result after two hours, if there was one in each minute of the time that the rule waits.
func (e evaluator) fires(a alert, load string) (last promql.Vector) {
	e.t.Helper()
	const at = 2 * time.Hour
	var wait time.Duration
	if a.For != "" {
		var err error
		if wait, err = time.ParseDuration(a.For); err != nil {
			e.t.Fatalf("%s: %v", a.Alert, err)
		}
	}
	load = regexp.MustCompile(`(?m)^\s*`).ReplaceAllString(load, "\t")
	load = regexp.MustCompile(`(mailroom_\w+)\{`).ReplaceAllString(load, `$1{job="mailroom",instance="i",`)
	load = regexp.MustCompile(`(?m)^\t(mailroom_\w+) `).ReplaceAllString(load, "\t$1{job=\"mailroom\",instance=\"i\"} ")
	store := promqltest.LoadedStorage(e.t, "load 1m\n"+load)
	defer store.Close()
	for when := at - wait; when <= at; when += time.Minute {
		q, err := e.engine.NewInstantQuery(e.t.Context(), store, nil, a.Expr, time.Unix(0, 0).Add(when))
		if err != nil {
			e.t.Fatal(err)
		}
		last, err = q.Exec(e.t.Context()).Vector()
		if err != nil {
			e.t.Fatalf("%s: %v", a.Alert, err)
		}
		if len(last) == 0 {
			return nil
		}
	}
	return last
}

func TestEachAlertFiresOnTheStateThatItNames(t *testing.T) {
	states := ruleStates()
	named := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	e := evaluator{t, promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)}
	for _, a := range alerts(t) {
		checkQuery(t, a.Alert, a.Expr)
		state, known := states[a.Alert]
		if !known || a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no test, severity, summary or description", a.Alert)
			continue
		}
		delete(states, a.Alert)
		got := e.fires(a, state.fires)
		if len(got) != 1 {
			t.Errorf("%s does not fire on %s: %v", a.Alert, state.fires, got)
			continue
		}
		for _, label := range named.FindAllStringSubmatch(a.Annotations["description"], -1) {
			if !got[0].Metric.Has(label[1]) && a.Alert != "MailroomDown" {
				t.Errorf("%s: the alert has no label %s: %v", a.Alert, label[1], got[0].Metric)
			}
		}
		if got := e.fires(a, state.calm); len(got) > 0 {
			t.Errorf("%s fires on %s: %v", a.Alert, state.calm, got)
		}
	}
	for name := range states {
		t.Errorf("there is no alert %s", name)
	}
}
