package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"mailroom/api"
	"mailroom/channel/chat/outbound"
	"mailroom/channel/platformtest"
	"mailroom/entry"
)

// killPlatforms start the platforms of the following test. What they return makes a fixture on
// the platform; more is of the agent's command.
func killPlatforms() map[string]func(t *testing.T) func(t *testing.T, more string) *chatFixture {
	platforms := map[string]func(t *testing.T) func(t *testing.T, more string) *chatFixture{}
	for name, make := range map[string]func(t *testing.T, more string) *chatFixture{
		"Telegram": func(t *testing.T, more string) *chatFixture {
			b := newTelegramFixture(t, more)
			b.tg.Up(t)
			return b.chatFixture
		},
		"Slack": newSlackFixture,
		"Discord": func(t *testing.T, more string) *chatFixture {
			b := newDiscordFixture(t, more)
			b.dc.Up(t)
			return b.chatFixture
		},
		"webhook": newWebhookFixture,
	} {
		platforms[name] = func(*testing.T) func(t *testing.T, more string) *chatFixture { return make }
	}
	for name, start := range matrixHomes {
		for _, restarts := range []bool{false, true} {
			platforms[fmt.Sprintf("Matrix %s, restarted %t", name, restarts)] = func(t *testing.T) func(t *testing.T, more string) *chatFixture {
				h, n := start(t), 0
				return func(t *testing.T, more string) *chatFixture {
					n++
					c := newMatrixFixture(t, h, fmt.Sprintf("bot%d", n), more)
					if restarts {
						c.whileKilled = h.again
					}
					return c
				}
			}
		}
	}
	return platforms
}

// killPoint is a place to kill a server at.
type killPoint struct {
	when     string
	more     string                                  // of the agent's command
	loseAcks bool                                    // the platform is not told what was received
	fault    func(c *chatFixture) platformtest.Fault // of the first send; nil for none
	until    func(c *chatFixture)                    // the kill
	away     []string                                // messages while the server is off
	told     int                                     // messages to the agent
	unknown  bool                                    // the outcome of the send is, and the platform may have to be sent it again
	arrived  bool                                    // the unknown send has arrived
}

func killPoints(hold chan struct{}) []killPoint {
	completed := func(c *chatFixture) {
		c.waitEntries(c.out(), entry.KindCompleted, 1)
		if c.pending != nil {
			platformtest.WaitFor(c.t, "the platform to be told of everything", func() bool { return c.pending() == 0 })
		}
	}
	return []killPoint{
		{
			when: "after the inbound commit, while the agent runs", more: "test $text != one || test $MAILROOM_ATTEMPT != 1 || cat gate;",
			loseAcks: true, until: func(c *chatFixture) { c.waitReplyCount(1) }, told: 2,
		},
		{
			when: "after the run, before the send", fault: func(c *chatFixture) platformtest.Fault { return c.limit },
			until: func(c *chatFixture) { c.waitEntries(c.out(), entry.KindRescheduled, 1) }, told: 1,
		},
		{
			when: "in the send, before the platform has it", fault: func(*chatFixture) platformtest.Fault { return platformtest.Fault{Hang: true} },
			until: func(c *chatFixture) {
				platformtest.WaitFor(c.t, "the send", func() bool { return c.sends() == 1 })
			}, told: 1, unknown: true,
		},
		{
			when: "after the send, before its receipt", fault: func(*chatFixture) platformtest.Fault { return platformtest.Fault{Hold: hold} },
			until: func(c *chatFixture) { c.waitTexts("ONE") }, told: 1, unknown: true, arrived: true,
		},
		{when: "after everything", until: completed, told: 1},
		{when: "before two more messages", until: completed, away: []string{"two", "three"}, told: 3},
	}
}

// TestAServerThatIsKilledAnswersEachMessage kills the server where it hurts, on each platform.
func TestAServerThatIsKilledAnswersEachMessage(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	for name, start := range killPlatforms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var table strings.Builder
			tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tab, "KILLED\tMESSAGES IN\tRUNS IN THE THREAD\tAGENT STARTED\tREPLIES OUT\tMARKED AS REPEATED")
			fixture := start(t)
			for _, k := range killPoints(hold) {
				t.Run(k.when, func(t *testing.T) { fmt.Fprintln(tab, k.play(t, fixture(t, k.more))) })
			}
			if err := tab.Flush(); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", table.String())
		})
	}
}

// play kills a server there, starts it again, and returns the line of the table.
func (k killPoint) play(t *testing.T, c *chatFixture) string {
	failed := 0
	if k.fault != nil {
		c.failSend(k.fault(c))
		failed = 1
	}
	k.loseAcks = k.loseAcks && c.loseAcks != nil
	if k.loseAcks {
		c.loseAcks(true)
	}
	if c.early {
		c.say("one")
		c.serve()
	} else {
		c.serve()
		c.waitChannel(c.channel, api.ChannelConnected)
		c.say("one")
	}
	k.until(c)
	c.server.kill()
	if c.whileKilled != nil {
		c.whileKilled()
	}
	if k.loseAcks {
		if n := c.pending(); n != 1 {
			t.Errorf("%d messages wait at the platform after the kill", n)
		}
		c.loseAcks(false)
	}
	for _, text := range k.away {
		c.say(text)
	}
	if c.forget != nil && k.away != nil {
		c.forget()
	}
	c.serve()
	if !c.early {
		c.waitChannel(c.channel, api.ChannelConnected)
	}
	if c.restarted != nil {
		c.restarted()
	}
	c.say("last") // behind everything
	in := 1 + len(k.away)
	c.waitLast(in)
	want, marks := []string{"ONE"}, 0
	if k.unknown && c.repeats {
		marks = 1
		if k.arrived {
			want = append(want, "ONE")
		}
	}
	for _, text := range k.away {
		want = append(want, strings.ToUpper(text))
	}
	texts, told := c.texts(), len(c.agentInputs())-1
	marked, runs := c.count(c.out(), outbound.KindRepeated), c.count(c.thread, entry.KindQueued)-1
	if told != k.told || marked != marks || runs != in || !slices.Equal(texts, append(want, "LAST")) {
		t.Errorf("%d runs, started %d times, replies %q, %d marked", runs, told, texts, marked)
	}
	if c.check != nil {
		c.check(failed)
	}
	for _, secret := range c.secrets {
		if all := c.server.talk.all(); strings.Contains(all, secret) {
			t.Errorf("it tells a secret: %s", all)
		}
	}
	c.server.kill()
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d", k.when, in, runs, told, len(texts)-1, marked)
}

// waitLast waits until the last message and those before it are answered, and acknowledged.
func (c *chatFixture) waitLast(before int) {
	c.t.Helper()
	platformtest.WaitFor(c.t, "the last reply", func() bool {
		return slices.Contains(c.texts(), "LAST") && (c.pending == nil || c.pending() == 0)
	})
	c.waitEntries(c.out(), entry.KindCompleted, before+1)
}
