package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"mailroom/api"
	"mailroom/client"
)

// hands is how many users work at a time.
const hands = 6

// open makes the threads that hands work on.
func (t *torture) open(ctx context.Context) error {
	p, err := t.up(ctx, t.tagged, t.config(usual), "")
	if err != nil {
		return err
	}
	defer p.kill()
	h := t.hand(t.target(p), plan{kind: atPoint}, 0)
	h.send(&operation{Kind: "open", Thread: t.plots.delivers, Text: "opened", Submit: &api.Submit{Thread: t.plots.delivers, Text: "opened", Key: "opened"}})
	row, err := h.client.PatchThread(ctx, t.plots.delivers, api.ThreadPatch{DeliverTo: &t.plots.delivered})
	if err != nil {
		return fmt.Errorf("have a thread deliver: %w", err)
	}
	t.delivers = row.LastSeq
	for _, thread := range t.plots.all() {
		h.submit(thread)
	}
	return t.check(ctx, p)
}

// cycle starts a server on what the last one left, checks that, works on it and
// kills it.
func (t *torture) cycle(ctx context.Context, p plan) error {
	binary, config := t.tagged, t.config(usual)
	if p.plain() {
		binary = t.plain
	}
	if p.beside() {
		config = t.config(narrow)
	}
	if p.kind == atStart {
		if err := t.killStart(ctx, binary, p); err != nil {
			return err
		}
	}
	if p.purge { // what is there must be read before it goes
		if err := t.once(ctx, p); err != nil {
			return err
		}
		t.purges.Store(true)
		defer t.journal.forget()
		config = t.config(forgetful)
	}
	s, err := t.checked(ctx, binary, config, p.doom)
	if err != nil && s != nil && s.died() { // while it started, or was read
		t.kills()
		t.counts.kill(p.String(), s.point())
		p.doom, p.load = "", 200*time.Millisecond
		s, err = t.checked(ctx, binary, config, "")
	}
	if err != nil {
		return err
	}
	defer s.kill()
	return t.load(ctx, s, p)
}

// checked starts a server and checks what the last one left. If that fails, the
// server has ended.
func (t *torture) checked(ctx context.Context, binary, config, doom string) (*process, error) {
	s, err := t.up(ctx, binary, config, doom)
	if err != nil {
		return s, err
	}
	if err := t.check(ctx, s); err != nil {
		if !s.died() {
			s.kill()
		}
		return s, err
	}
	return s, nil
}

// once starts a server without load, to have everything checked and repeated.
func (t *torture) once(ctx context.Context, p plan) error {
	s, err := t.up(ctx, t.tagged, t.config(usual), "")
	if err != nil {
		return err
	}
	defer s.kill()
	h := t.hand(t.target(s), p, 0)
	for o := t.journal.unansweredSubmit(true); o != nil; o = t.journal.unansweredSubmit(true) {
		h.repeat(o)
	}
	return t.check(ctx, s)
}

// killStart kills a server while it starts.
func (t *torture) killStart(ctx context.Context, binary string, p plan) error {
	s, err := t.serve(binary, t.config(usual), "")
	if err != nil {
		return err
	}
	pause(ctx, time.Duration(p.seed%60)*time.Millisecond)
	t.kills()
	s.kill()
	t.counts.kill(p.kind, "")
	return nil
}

// load lets hands, deciders and readers work until the kill.
func (t *torture) load(ctx context.Context, s *process, p plan) error {
	at := t.target(s)
	defer at.http.CloseIdleConnections()
	ctx, end := context.WithCancel(ctx)
	defer end()
	var crew sync.WaitGroup
	defer crew.Wait()
	defer end()
	for i := range hands {
		crew.Go(func() { t.hand(at, p, 1+i).work(ctx) })
	}
	for i := range 2 {
		crew.Go(func() { t.hand(at, p, 100+i).decider(ctx, false) })
	}
	for _, r := range t.steady {
		crew.Go(func() { r.steady(ctx, at) })
	}
	for i, r := range t.roving {
		crew.Go(func() { t.rove(ctx, r, at, rand.New(rand.NewPCG(p.seed, uint64(200+i)))) })
	}
	crew.Go(func() { t.stay(ctx, at) })
	if p.beside() {
		return t.withWorker(ctx, s, p)
	}
	switch { // now and then: the doctor reads everything
	case p.doctor:
		t.examine(ctx, "live")
	case p.backup:
		t.copied(ctx)
	}
	late := time.NewTimer(p.load)
	defer late.Stop()
	select {
	case <-late.C:
	case <-s.exited:
	case <-ctx.Done():
	}
	t.kills()
	if s.gone() && s.point() == "" && ctx.Err() == nil {
		return fmt.Errorf("the server ended by itself: %s", s.last(20))
	}
	s.kill()
	if p.kind != atPoint || p.doom != "" {
		t.counts.kill(p.String(), s.point())
	}
	return nil
}

// rove reads some thread from some place, cuts the connection and resumes, and
// moves on.
func (t *torture) rove(ctx context.Context, r *reader, at target, dice *rand.Rand) {
	for ctx.Err() == nil {
		for range 1 + dice.IntN(6) {
			part, cut := context.WithTimeout(ctx, time.Duration(5+dice.IntN(80))*time.Millisecond)
			r.follow(part, at)
			cut()
			if ctx.Err() != nil {
				return
			}
		}
		if dice.IntN(3) > 0 {
			continue
		}
		all := t.plots.all()
		thread := all[dice.IntN(len(all))]
		after := t.log(thread).length()
		if after > 0 && dice.IntN(2) == 0 {
			after = dice.Int64N(after)
		}
		*r = *t.reader(thread, r.name, after)
	}
}

// stay follows a thread through the client until it has to end, to see that the
// client numbers on.
func (t *torture) stay(ctx context.Context, at target) {
	c := client.New(at.url, at.token, client.WithHTTPClient(at.http))
	thread := t.plots.echo[0]
	last := t.log(thread).length()
	q := client.FollowQuery{Thread: thread, After: fmt.Sprint(last)}
	for ev, err := range c.Follow(ctx, q) {
		switch {
		case err != nil && ctx.Err() == nil:
			t.violation(thread, "the client stopped following: %v", err)
		case ev.Entry == nil:
		case ev.Entry.Seq != last+1:
			t.violation(thread, "the client followed entry %d with entry %d", last, ev.Entry.Seq)
			fallthrough
		default:
			last = ev.Entry.Seq
		}
	}
}
