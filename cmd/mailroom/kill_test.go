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

// killPlatforms returns, by platform, a function that starts it and returns a constructor of fixtures
// on it; more is shell code of the agent.
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
			platforms[fmt.Sprintf("Matrix %s, restarted %t", name, restarts)] = func(t *testing.T) func(t *testing.T,
				more string) *chatFixture {
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

// killPoint is a point at which the server is killed.
type killPoint struct {
	when     string
	more     string                                  // shell code of the agent
	loseAcks bool                                    // acknowledgements are lost
	fault    func(c *chatFixture) platformtest.Fault // of the first send; nil: none
	until    func(c *chatFixture)                    // waits for the time of the kill
	away     []string                                // messages while the server is off
	inputs   int                                     // inputs of the agent
	unknown  bool                                    // the outcome of the send is unknown, so it may be repeated
	arrived  bool                                    // the message with the unknown outcome has arrived
}

func killPoints(hold chan struct{}) []killPoint {
	completed := func(c *chatFixture) {
		c.waitEntries(c.out(), entry.KindCompleted, 1)
		if c.pending != nil {
			platformtest.WaitFor(c.t, "all acknowledgements", func() bool { return c.pending() == 0 })
		}
	}
	return []killPoint{
		{
			when:     "after the inbound commit, while the agent runs",
			more:     "test $text != one || test $MAILROOM_ATTEMPT != 1 || cat gate;",
			loseAcks: true, until: func(c *chatFixture) { c.waitAgentInputs(1) }, inputs: 2,
		},
		{
			when: "after the run, before the send", fault: func(c *chatFixture) platformtest.Fault { return c.limit },
			until: func(c *chatFixture) { c.waitEntries(c.out(), entry.KindRescheduled, 1) }, inputs: 1,
		},
		{
			when: "in the send, before the platform has it", fault: func(*chatFixture) platformtest.Fault {
				return platformtest.Fault{Hang: true}
			},
			until: func(c *chatFixture) {
				platformtest.WaitFor(c.t, "the send", func() bool { return c.sends() == 1 })
			}, inputs: 1, unknown: true,
		},
		{
			when: "after the send, before its receipt", fault: func(*chatFixture) platformtest.Fault {
				return platformtest.Fault{Hold: hold}
			},
			until: func(c *chatFixture) { c.waitTexts("ONE") }, inputs: 1, unknown: true, arrived: true,
		},
		{when: "after everything", until: completed, inputs: 1},
		{when: "before two more messages", until: completed, away: []string{"two", "three"}, inputs: 3},
	}
}

// TestAServerThatIsKilledAnswersEachMessage kills the server at each killPoint, on each platform.
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

// play kills the server at the point, restarts it, and returns a line of the table.
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
			t.Errorf("%d unacknowledged messages after the kill, want 1", n)
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
	c.say("last") // after all other messages
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
	texts, inputs := c.texts(), len(c.agentInputs())-1
	marked, runs := c.count(c.out(), outbound.KindRepeated), c.count(c.thread, entry.KindQueued)-1
	if inputs != k.inputs || marked != marks || runs != in || !slices.Equal(texts, append(want, "LAST")) {
		t.Errorf("%d runs, %d inputs of the agent, replies %q, %d marked; want %d, %d, %q, %d", runs, inputs, texts, marked,
			in, k.inputs, append(want, "LAST"), marks)
	}
	if c.check != nil {
		c.check(failed)
	}
	for _, secret := range c.secrets {
		if all := c.server.output.all(); strings.Contains(all, secret) {
			t.Errorf("the server's output contains a secret: %s", all)
		}
	}
	c.server.kill()
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d", k.when, in, runs, inputs, len(texts)-1, marked)
}

// waitLast waits until the last message and the ones before it have replies and are acknowledged.
func (c *chatFixture) waitLast(before int) {
	c.t.Helper()
	platformtest.WaitFor(c.t, "the last reply", func() bool {
		return slices.Contains(c.texts(), "LAST") && (c.pending == nil || c.pending() == 0)
	})
	c.waitEntries(c.out(), entry.KindCompleted, before+1)
}
