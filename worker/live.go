package worker

import (
	"context"
	"sync"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/internal/recovery"
)

const (
	liveEvery = 50 * time.Millisecond
	liveDepth = 4096        // most notices in the buffer
	liveMost  = 256 << 10   // most buffered bytes of one run
	liveCalls = 16          // most concurrent requests
	liveRest  = time.Second // pause after a failed request
)

// liveText buffers the text that one run has produced since the last request.
//
// Live text is sent in chunks, and dropped if it cannot be sent in time. No text is lost by that, because the next
// flush stores it, and the server accepts a flush only where it continues the stored text.
type liveText struct {
	claim   mailroom.Claim
	message string
	channel string
	call    string // id of the tool call, if the channel is tool
	name    string // name of the called tool
	offset  int
	text    []byte
	busy    bool // a request is under way
}

// Run forwards live text to the server until ctx ends. It never blocks an agent: text
// that cannot be sent in time is dropped and arrives with the next flush.
func (l *Ledger) Run(ctx context.Context) {
	sub := l.bus.Subscribe("", liveDepth)
	defer sub.Close()
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	runs := map[string]*liveText{} // key: run, channel and call
	sent := make(chan sentText, liveCalls)
	calls, pausedUntil := 0, time.Time{}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-sub.C:
			if n.Delta != nil && n.Delta.Channel != entry.ChannelWaits { // renewals carry what an agent waits for
				buffer(runs, n.Thread, n.Delta)
			}
		case s := <-sent:
			calls--
			if runs[s.run].busy = false; s.err != nil {
				pausedUntil = time.Now().Add(liveRest)
			}
		case now := <-tick.C:
			for run, p := range runs {
				switch {
				case p.busy:
				case len(p.text) == 0, !l.holds(p.claim): // the text is in the log already, or arrives with the settle
					delete(runs, run)
				case now.Before(pausedUntil):
					p.text = nil
				case calls < liveCalls:
					calls++
					c, in := p.claim, p.next()
					wg.Go(func() {
						defer recovery.Handle(l.options.Log, "the sender of live text",
							func(p *recovery.Panic) { sent <- sentText{run, p} })
						sent <- sentText{run, l.sendLive(ctx, c, in)}
					})
				}
			}
		}
	}
}

// holds reports whether the engine holds a claim and has not begun to settle it.
func (l *Ledger) holds(c mailroom.Claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[c.Run]
	return h != nil && h.claim == c
}

// sentText is the result of one request that sent live text.
type sentText struct {
	run string
	err error
}

// buffer appends a delta to the live text of its run. A delta that does not continue the text, or that does not fit
// into the buffer, begins a new text; the next flush fills the gap.
func buffer(runs map[string]*liveText, thread string, d *entry.Delta) {
	key := d.Channel + " " + d.Run + " " + d.Call
	p := runs[key]
	if p == nil {
		p = &liveText{channel: d.Channel, call: d.Call, name: d.Name}
		runs[key] = p
	}
	if p.message != d.Message || p.offset+len(p.text) != d.Offset || len(p.text)+len(d.Text) > liveMost {
		p.claim = mailroom.Claim{Thread: thread, Run: d.Run, Attempt: d.Attempt}
		p.message, p.offset, p.text = d.Message, d.Offset, nil
	}
	p.text = append(p.text, d.Text...)
}

// next returns the next request with the buffered text, and empties the buffer.
func (p *liveText) next() api.Text {
	in := api.Text{Message: p.message, Offset: p.offset, Text: string(p.text), Live: true}
	if p.channel != entry.ChannelText {
		in.Channel, in.Call, in.Name = p.channel, p.call, p.name
	}
	p.offset, p.text, p.busy = p.offset+len(p.text), nil, true
	return in
}

func (l *Ledger) sendLive(ctx context.Context, c mailroom.Claim, in api.Text) error {
	ctx, cancel := context.WithTimeout(ctx, l.lease/3)
	defer cancel()
	out, err := l.client.Work.Write(ctx, c, in)
	if err == nil {
		l.forwardOrders(c, out.Orders)
	}
	if in.Channel == entry.ChannelTool && mailroom.CodeOf(err) == mailroom.CodeInvalid {
		return nil // an older server does not know the channel; its refusal must not delay the text of the message
	}
	return err
}
