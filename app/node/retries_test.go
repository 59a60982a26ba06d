package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/api"
	"mailroom/internal/retry"
)

// What the server sends by itself is no work of an agent: attempts = 1 for those must not lose replies and alerts.
func TestTheRetriesOfAgentsAreNotThoseOfRepliesAndAlerts(t *testing.T) {
	c, r, _, err := newTestAgents(t, t.TempDir(),
		"[retry]\nattempts = 1\nfirst = \"1h\"\n[agents.far]\nkind = \"remote\"\nattempts = 7\n[agents.echo]\nretry_most = \"2h\"\n")
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]retry.Policy{
		"echo":        retry.Policy{Attempts: 1, First: time.Hour, Most: 2 * time.Hour}.Over(retry.Default()),
		"far":         retry.Policy{Attempts: 7, First: time.Hour}.Over(retry.Default()),
		"unheard of":  retry.Policy{Attempts: 1, First: time.Hour}.Over(retry.Default()),
		"channel:irc": retry.Delivery(),
		"alert:phone": retry.Delivery(),
	} {
		if got := r.retryOf(agent, c.Retry); got != want {
			t.Errorf("%s: %+v, want %+v", agent, got, want)
		}
	}
}

func TestAnAgentOfKindRemoteIsKnownAndNotRunHere(t *testing.T) {
	_, r, _, err := newTestAgents(t, t.TempDir(),
		"default_agent = \"codex\"\n[agents.codex]\nkind = \"remote\"\n[agents.far]\nkind = \"remote\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if r.agents["codex"].Agent != nil || r.agents["far"].Agent != nil || r.kinds["far"] != "remote" ||
		len(r.present) != 3 {
		t.Errorf("agents %v of kinds %v with %d definitions; want none for codex and far", r.agents, r.kinds, len(r.present))
	}
	if diff := cmp.Diff([]string{"claude", "codex", "far"}, r.missing()); diff != "" { // claude: not found
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestAnAgentIsDescribedWithItsRetries(t *testing.T) {
	c, r, _, err := newTestAgents(t, t.TempDir(),
		"[retry]\nattempts = 3\n[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\nretry_first = \"1h\"\npermanent_exits = [3, 4]\nisolation = \"none\"\n")
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]*api.AgentRetry{
		"a": {Attempts: 3, First: "1h", Factor: 5, Most: "1h", OutageMost: "5m", Outage: "24h", MaxCrashes: 3,
			PermanentExits: []int{3, 4}, UnavailableExits: []int{75}},
		"echo": {Attempts: 3, First: "5s", Factor: 5, Most: "10m", OutageMost: "5m", Outage: "24h", MaxCrashes: 3,
			PermanentExits: []int{}, UnavailableExits: []int{}},
		"unheard of": {Attempts: 3, First: "5s", Factor: 5, Most: "10m", OutageMost: "5m", Outage: "24h", MaxCrashes: 3,
			PermanentExits: []int{}, UnavailableExits: []int{}},
	} {
		if diff := cmp.Diff(want, r.describeRetry(agent, c.Retry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", agent, diff)
		}
	}
}
