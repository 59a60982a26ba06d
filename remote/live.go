package remote

import (
	"context"
	"sync"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/recovery"
)

const (
	liveEvery = 50 * time.Millisecond
	liveDepth = 4096      // notices that may wait to be looked at
	liveMost  = 256 << 10 // bytes that wait to be sent, per run
	liveCalls = 16        // at a time
	liveRest  = time.Second
)

// live is what one run has said since the last piece was sent.
type live struct {
	claim   mailroom.Claim
	message string
	offset  int
	text    []byte
	busy    bool // a piece is on its way
}

// Run sends live text on until ctx ends. It never makes an agent wait: text that
// cannot be sent in time is dropped, and comes when it is flushed.
func (l *Ledger) Run(ctx context.Context) {
	sub := l.bus.Subscribe("", liveDepth)
	defer sub.Close()
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	runs := map[string]*live{}
	sent := make(chan sentText, liveCalls)
	calls, until := 0, time.Time{} // until when nothing is sent, after a call that failed
	var crew sync.WaitGroup
	defer crew.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-sub.C:
			if n.Delta != nil {
				collect(runs, n.Thread, n.Delta)
			}
		case s := <-sent:
			calls--
			if runs[s.run].busy = false; s.err != nil {
				until = time.Now().Add(liveRest)
			}
		case now := <-tick.C:
			for run, p := range runs {
				switch {
				case p.busy:
				case len(p.text) == 0, !l.holds(p.claim): // its message is in the log, or comes with what ends the attempt
					delete(runs, run)
				case now.Before(until):
					p.text = nil
				case calls < liveCalls:
					calls++
					c, in := p.claim, p.next()
					crew.Go(func() {
						defer recovery.Handle(l.options.Log, "what sends live text", func(p *recovery.Panic) { sent <- sentText{run, p} })
						sent <- sentText{run, l.show(ctx, c, in)}
					})
				}
			}
		}
	}
}

// holds reports whether a claim is held and its end was not begun.
func (l *Ledger) holds(c mailroom.Claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[c.Run]
	return h != nil && h.claim == c
}

// sentText is how a call ended.
type sentText struct {
	run string
	err error
}

// collect adds a delta to what its run has said. What does not follow it, and
// what is too much, begins anew: there is a hole then, which the flush fills.
func collect(runs map[string]*live, thread string, d *mailroom.Delta) {
	p := runs[d.Run]
	if p == nil {
		p = &live{}
		runs[d.Run] = p
	}
	if p.message != d.Message || p.offset+len(p.text) != d.Offset || len(p.text)+len(d.Text) > liveMost {
		p.claim = mailroom.Claim{Thread: thread, Run: d.Run, Attempt: d.Attempt}
		p.message, p.offset, p.text = d.Message, d.Offset, nil
	}
	p.text = append(p.text, d.Text...)
}

// next takes what is to be sent now.
func (p *live) next() api.Text {
	in := api.Text{Message: p.message, Offset: p.offset, Text: string(p.text), Live: true}
	p.offset, p.text, p.busy = p.offset+len(p.text), nil, true
	return in
}

func (l *Ledger) show(ctx context.Context, c mailroom.Claim, in api.Text) error {
	ctx, cancel := context.WithTimeout(ctx, l.lease/3)
	defer cancel()
	out, err := l.client.Write(ctx, c, in)
	if err == nil {
		l.obey(c, out.Orders)
	}
	return err
}
