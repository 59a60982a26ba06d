package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/entry"
)

// TestWebhooksArriveAtEveryServer posts messages to both servers in turn, and kills and pauses the one that
// has the channel. The other one accepts messages at once, and each is answered once and in order.
func TestWebhooksArriveAtEveryServer(t *testing.T) {
	t.Parallel()
	b := newWebhookFixture(t, "")
	c := newNodes(b.fixture, 2)
	first, second := c.all[0], c.all[1]
	p := &poster{t: t}
	answered := func(by *fixture) {
		t.Helper()
		b.waitTexts(p.answers...)
		by.waitEntries(b.out(), entry.KindCompleted, len(p.answers))
	}

	first.serve()
	first.waitChannel("ops", api.ChannelConnected)
	second.serve()
	second.waitChannel("ops", api.ChannelStandby)
	p.waitAccepted(second)
	for i := range 4 {
		p.wantAccepted(c.all[i%2])
		p.wantAccepted(c.all[1-i%2]) // the program repeats it
		p.next()
	}
	answered(first)
	if a := p.post(second, func(r *http.Request) {
		r.Header.Set("webhook-signature", "v1,"+strings.Repeat("A", 43)+"=")
	}); a.Code != http.StatusUnauthorized {
		t.Errorf("a message with another signature got %d %s, want 401", a.Code, a.Body)
	}

	first.server.kill()
	for range 2 { // no server has the channel
		p.wantAccepted(second)
		p.next()
	}
	answered(second)
	second.waitChannel("ops", api.ChannelConnected)
	first.serve()
	first.waitChannel("ops", api.ChannelStandby)
	p.waitAccepted(first)
	for range 3 {
		var both sync.WaitGroup
		for _, s := range c.all {
			both.Go(func() { p.wantAccepted(s) })
		}
		both.Wait()
		p.next()
	}
	answered(second)

	sendSignal(t, second, syscall.SIGSTOP)
	p.wantAccepted(first)
	p.next()
	first.waitChannel("ops", api.ChannelConnected)
	answered(first)
	sendSignal(t, second, syscall.SIGCONT)
	second.waitChannel("ops", api.ChannelStandby)
	p.waitAccepted(second)
	p.next()
	answered(first)
	if got := b.agentInputs(); len(got) != len(p.answers) {
		t.Errorf("the agent had the inputs %q, want %d", got, len(p.answers))
	}
}

// poster posts numbered messages to servers.
type poster struct {
	t       *testing.T
	answers []string // to the messages before the current one
}

// post posts the current message. change modifies the request after it was signed.
func (p *poster) post(to *fixture, change func(*http.Request)) platformtest.WebhookAnswer {
	p.t.Helper()
	text := fmt.Sprint("m", len(p.answers))
	program := platformtest.WebhookProgram{URL: to.server.url, Key: platformtest.WebhookKey}
	a, err := program.Post("ops", "id-"+text, platformtest.WebhookMessage("lobby", "ann", text), change)
	if err != nil {
		p.t.Error(err)
	}
	return a
}

// wantAccepted posts the current message to a server that must accept it at once.
func (p *poster) wantAccepted(to *fixture) {
	p.t.Helper()
	if a := p.post(to, nil); a.Code != http.StatusAccepted {
		p.t.Errorf("message %d got %d %s, want it to be accepted", len(p.answers), a.Code, a.Body)
	}
}

// waitAccepted posts the current message to a server that has just started.
func (p *poster) waitAccepted(to *fixture) {
	p.t.Helper()
	platformtest.WaitFor(p.t, "the server to accept a message", func() bool {
		return p.post(to, nil).Code == http.StatusAccepted
	})
}

// next goes to the next message.
func (p *poster) next() { p.answers = append(p.answers, fmt.Sprint("M", len(p.answers))) }
