package reserved_test

import (
	"testing"

	"mailroom/alert"
	"mailroom/app/config"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/internal/reserved"
	"mailroom/issues/feed"
	"mailroom/project"
)

// TestEveryIdThatTheServerMakesIsReserved compares the rules with the functions that make the ids.
func TestEveryIdThatTheServerMakesIsReserved(t *testing.T) {
	project, err := project.ThreadID("p")
	if err != nil {
		t.Fatal(err)
	}
	chat := channel.ThreadID("my shop", "room", "3")
	for _, test := range []struct {
		id, prefix, owner, agent string
		server                   bool
	}{
		{alert.ThreadID("phone"), "alert:", auth.Operator, alert.AgentName("phone"), true},
		{alert.SubscriberID("phone", "alice", "0f"), "alert:", "alice", alert.AgentName("phone"), true},
		{"alert:phone:alice", "alert:", "alice", alert.AgentName("phone"), true}, // of an older version
		{alert.ThreadID("browsers") + ":push:0f", "alert:", auth.Operator, alert.AgentName("browsers"), true},
		{channel.DeliveryThreadID(chat), "out:", auth.Operator, channel.AgentName("my shop"), true},
		{channel.LogThreadID("my shop"), "channel:", auth.Operator, "", true},
		{project, "project:", auth.Operator, "", false},
		{feed.Thread(config.TrackerChannel, "mr-1"), "issue:", auth.Operator, "", false},
		{reserved.AuditLog, "audit:", "", "", true},
		{reserved.ScheduleID(auth.Operator, "nightly"), "schedule:", auth.Operator, reserved.Scheduler, true},
		{reserved.ScheduleID("alice", "nightly"), "schedule:", "alice", reserved.Scheduler, true},
		{"budget:agent:coder:day", "budget:", auth.Operator, reserved.Asker, true},
		{reserved.PullsID(auth.Operator, "fix-roof"), "pulls:", auth.Operator, reserved.Puller, true},
		{reserved.PullsID("alice", "fix-roof"), "pulls:", "alice", reserved.Puller, true},
		{"schedule:nightly", "schedule:", auth.Operator, reserved.Scheduler, true}, // of no schedule
		{chat, "", auth.Operator, "", false},
		{"alert", "", auth.Operator, "", false},
		{"Alert:phone", "", auth.Operator, "", false},
	} {
		prefix, owner, agent := reserved.Prefix(test.id), reserved.Owner(test.id), reserved.Agent(test.id)
		if server := reserved.ForServer(test.id); prefix != test.prefix || owner != test.owner || agent != test.agent ||
			server != test.server {
			t.Errorf("%s: got %q, owner %q, agent %q, for the server %v; want %+v", test.id, prefix, owner, agent, server, test)
		}
	}
}

func TestOnlyPartsOfTheServerAreReservedAgents(t *testing.T) {
	for agent, want := range map[string]bool{alert.AgentName("x"): true, channel.AgentName("x"): true,
		reserved.Scheduler: true, reserved.Puller: true, "echo": false, "alert": false} {
		if got := reserved.IsAgent(agent); got != want {
			t.Errorf("%s: got %v, want %v", agent, got, want)
		}
	}
}
