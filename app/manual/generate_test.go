package manual

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/store"
)

// constants returns the names of the constants in a file that begin with prefix, with their values if they are texts.
func constants(t *testing.T, file, prefix string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value := ""
		if len(spec.Values) == 1 {
			if text, ok := spec.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				value, _ = strconv.Unquote(text.Value)
			}
		}
		all[spec.Names[0].Name] = value
		return true
	})
	return all
}

func TestEachKindOfEntryHasAnExampleThatIsOne(t *testing.T) {
	bodies := map[string]any{
		entry.KindMessage: &mailroom.Message{}, entry.KindMessageRead: &entry.MessageRef{}, entry.KindEdited: &struct {
			Message, Text string
			Parts         []mailroom.Part
		}{},
		entry.KindRetracted: &entry.MessageRef{}, entry.KindQueued: &entry.RunQueued{},
		entry.KindStarted: &entry.RunStarted{},
		entry.KindStep:    &entry.StepNamed{}, entry.KindToolStarted: &entry.ToolStarted{},
		entry.KindToolDone: &entry.ToolDone{},
		entry.KindSend:     &entry.Sent{}, entry.KindWaiting: &entry.RunWaiting{}, entry.KindResumed: &entry.RunStarted{},
		entry.KindRescheduled: &entry.RunRescheduled{}, entry.KindStop: &entry.RunStop{},
		entry.KindCompleted: &entry.RunCompleted{}, entry.KindFailed: &entry.RunFailed{},
		entry.KindCancelled: &entry.RunStop{},
		entry.KindRetried:   &entry.RunRetried{}, entry.KindTicketOpened: &mailroom.Ticket{},
		entry.KindTicketDecided: &entry.TicketDecision{}, entry.KindTicketExpired: &entry.TicketRef{},
		entry.KindBudgetLow: &entry.BudgetState{}, entry.KindBudgetSpent: &entry.BudgetState{},
		entry.KindBudgetRaised:   &entry.BudgetRaised{},
		entry.KindEffectIntended: &entry.EffectEntry{}, entry.KindEffectSettled: &entry.EffectEntry{},
		entry.KindEffectUnknown: &entry.EffectEntry{}, entry.KindReserved: &store.Reservation{},
		entry.KindChannel: &channel.Change{}, entry.KindAudit: &entry.Audit{},
	}
	shown := map[string]bool{}
	for _, g := range events() {
		for _, e := range g.events {
			if shown[e.kind] || !json.Valid([]byte(e.body)) {
				t.Errorf("%s is shown twice, or its example is no JSON: %s", e.kind, e.body)
			}
			shown[e.kind] = true
			if bodies[e.kind] == nil {
				continue
			}
			d := json.NewDecoder(strings.NewReader(e.body))
			d.DisallowUnknownFields()
			if err := d.Decode(bodies[e.kind]); err != nil {
				t.Errorf("the example of %s: %v", e.kind, err)
			}
		}
	}
	for name, kind := range constants(t, "../../entry/entry.go", "Kind") {
		if !shown[kind] {
			t.Errorf("%s has no example", name)
		}
	}
	if len(shown) < 29 {
		t.Errorf("%d kinds", len(shown))
	}
}

func TestEachCodeIsExplained(t *testing.T) {
	all := constants(t, "../../error.go", "Code")
	text, err := errorList()
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range all {
		if !slices.ContainsFunc(meaningOf(), func(row [2]string) bool { return row[0] == code && row[1] != "" }) {
			t.Errorf("%s is not explained", name)
		}
	}
	if len(all) < 14 || !strings.Contains(text, "| `rate_limited` | 429 Too Many Requests |") {
		t.Errorf("%d codes: %s", len(all), text)
	}
}

func TestEachLimitIsListed(t *testing.T) {
	for _, file := range []string{"../../limits.go", "../../project/notification.go"} {
		for name := range constants(t, file, "Max") {
			if !slices.ContainsFunc(limits(), func(l limit) bool { return l.name == name && l.value != "" && l.of != "" }) {
				t.Errorf("%s of %s is not listed", name, file)
			}
		}
	}
	if text, err := limitList(); err != nil || !strings.Contains(text, "| 1.0 MiB | the text of a message |") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestTheReferenceOfTheAPIListsEachOperation(t *testing.T) {
	raw, err := ask("/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := operationList()
	if err != nil {
		t.Fatal(err)
	}
	operations, listed := bytes.Count(raw, []byte(`"operationId"`)), strings.Count(text, "](../api.html#")
	if operations < 80 || listed != operations {
		t.Errorf("%d of %d operations are listed", listed, operations)
	}
	page, err := apiPage()
	if err != nil || bytes.Contains(page, []byte(`"../`)) {
		t.Errorf("the page of a site leaves it: %v", err)
	}
}

func TestMetricsFiltersAndSettingsAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		list func() (string, error)
		want []string
	}{
		"metrics": {metricList, []string{
			"| `mailroom_runs_total` |  `agent` `status` | Runs that have finished. |", "`mailroom_channel_state`",
		}},
		"filters": {filterList, []string{
			"## Runs\n", "| `status` | `queued`, `running`", "| `metadata.NAME` |", "| `updated` | a day or a time",
		}},
		"settings": {settingList, []string{
			"| `listen` | `\"127.0.0.1:8420\"` | Address", "## `[limits]`", "## `[postgres]`", "| `max_queued` | `1000` |",
			"## `[agents.NAME]`, for a command\n\n| setting | default | meaning |\n| --- | --- | --- |\n| `kind` |",
		}},
	} {
		text, err := c.list()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in %s", name, want, text)
			}
		}
	}
}

func TestACommandIsDescribedByItsHelp(t *testing.T) {
	root := &cobra.Command{Use: "mailroom", Long: "An id_of_a_run is <short>.\n\n  code"}
	root.AddGroup(&cobra.Group{ID: "talk", Title: "Talk:"})
	run := func(*cobra.Command, []string) error { return nil }
	send := &cobra.Command{Use: "send TEXT", Short: "Send a message", GroupID: "talk", RunE: run,
		Long: "Send a message.\n\nExit codes: 0 sent, 2 invalid.", Example: "  mailroom send hello"}
	send.Flags().BoolP("detach", "d", false, "return | at once")
	send.Flags().String("later", "", "")
	send.Flags().Lookup("later").Hidden = true
	send.AddCommand(&cobra.Command{Use: "all", Short: "Send to all", RunE: run},
		&cobra.Command{Use: "secret", Short: "Hide", RunE: run, Hidden: true})
	root.AddCommand(send)
	got := commandList(root)
	for _, want := range []string{
		`An id\_of\_a\_run is \<short>.`, "```\n  code\n```", "## Talk\n",
		"### mailroom send\n\n```\nmailroom send TEXT [flags]\n```",
		"| `-d, --detach` | return \\| at once |", "Exit codes: 0 sent", "```\nmailroom send hello\n```",
		"### mailroom send all\n\nSend to all.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "later") || strings.Contains(got, "secret") {
		t.Errorf("what is hidden is shown: %s", got)
	}
}
