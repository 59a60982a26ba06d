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

// users is the number of concurrent users.
const users = 6

// openThreads creates the threads that users work on.
func (t *torture) openThreads(ctx context.Context, p *process) error {
	h := t.newUser(t.target(p), plan{kind: atPoint}, 0)
	h.send(&operation{Kind: "open", Thread: t.threads.delivers, Text: "opened",
		Submit: &api.Submit{Thread: t.threads.delivers, Text: "opened", Key: "opened"}})
	row, err := h.client.PatchThread(ctx, t.threads.delivers, api.ThreadPatch{DeliverTo: &t.threads.delivered})
	if err != nil {
		return fmt.Errorf("set deliver_to: %w", err)
	}
	t.delivers = row.LastSeq
	for _, thread := range t.threads.all() {
		h.submit(thread)
	}
	return t.check(ctx, p)
}

// cycle starts a server on the data of the previous one, checks the data, puts load on the server
// and kills it.
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
	if p.purge { // entries must be read before they are purged
		if err := t.checkIdle(ctx, p); err != nil {
			return err
		}
		t.purges.Store(true)
		defer t.journal.forgetRecent()
		config = t.config(forgetful)
	}
	s, err := t.startAndCheck(ctx, binary, config, p.doom)
	if err != nil && s != nil && s.died() { // while it started, or was read
		t.faults.addKill()
		t.counts.kill(p.String(), s.point())
		p.doom, p.load = "", 200*time.Millisecond
		s, err = t.startAndCheck(ctx, binary, config, "")
	}
	if err != nil {
		return err
	}
	defer s.kill()
	return t.load(ctx, s, p)
}

// startAndCheck starts a server and checks the data of the previous one. If it returns an error, the server has
// exited.
func (t *torture) startAndCheck(ctx context.Context, binary, config, doom string) (*process, error) {
	s, err := t.startServer(ctx, t.data(), binary, config, doom)
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

// checkIdle starts a server without load, checks everything and repeats unanswered submits.
func (t *torture) checkIdle(ctx context.Context, p plan) error {
	s, err := t.startServer(ctx, t.data(), t.tagged, t.config(usual), "")
	if err != nil {
		return err
	}
	defer s.kill()
	h := t.newUser(t.target(s), p, 0)
	for o := t.journal.unansweredSubmit(true); o != nil; o = t.journal.unansweredSubmit(true) {
		h.retryUnanswered(o)
	}
	return t.check(ctx, s)
}

// killStart kills a server during its start.
func (t *torture) killStart(ctx context.Context, binary string, p plan) error {
	s, err := t.serve(t.data(), binary, t.config(usual), "")
	if err != nil {
		return err
	}
	pause(ctx, time.Duration(p.seed%60)*time.Millisecond)
	t.faults.addKill()
	s.kill()
	t.counts.kill(p.kind, "")
	return nil
}

// load lets users, deciders and readers work until the kill.
func (t *torture) load(ctx context.Context, s *process, p plan) error {
	at := t.target(s)
	defer at.http.CloseIdleConnections()
	ctx, end := context.WithCancel(ctx)
	defer end()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	for i := range users {
		wg.Go(func() { t.newUser(at, p, 1+i).work(ctx) })
	}
	for i := range 2 {
		wg.Go(func() { t.newUser(at, p, 100+i).decideLoop(ctx, false) })
	}
	for _, r := range t.steady {
		wg.Go(func() { r.followAll(ctx, at) })
	}
	for i, r := range t.roving {
		wg.Go(func() { t.rove(ctx, r, at, rand.New(rand.NewPCG(p.seed, uint64(200+i)))) })
	}
	wg.Go(func() { t.followClient(ctx, at) })
	if p.beside() {
		return t.withWorker(ctx, s, p)
	}
	switch { // occasionally: doctor reads everything
	case p.doctor:
		t.runDoctor(ctx, "live")
	case p.backup:
		t.checkCopy(ctx)
	}
	late := time.NewTimer(p.load)
	defer late.Stop()
	select {
	case <-late.C:
	case <-s.exited:
	case <-ctx.Done():
	}
	t.faults.addKill()
	if s.hasExited() && s.point() == "" && ctx.Err() == nil {
		return fmt.Errorf("server exited unexpectedly: %s", s.last(20))
	}
	s.kill()
	if p.kind != atPoint || p.doom != "" {
		t.counts.kill(p.String(), s.point())
	}
	return nil
}

// rove reads random threads from random positions, cutting the connection and resuming.
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
		all := t.threads.all()
		thread := all[dice.IntN(len(all))]
		after := t.log(thread).length()
		if after > 0 && dice.IntN(2) == 0 {
			after = dice.Int64N(after)
		}
		*r = *t.reader(thread, r.name, after)
	}
}

// followClient follows a thread with the API client until ctx ends, and checks that the client
// numbers entries without gaps.
func (t *torture) followClient(ctx context.Context, at target) {
	c := client.New(at.url, at.token, client.WithHTTPClient(at.http))
	thread := t.threads.echo[0]
	last := t.log(thread).length()
	q := client.FollowQuery{Thread: thread, After: fmt.Sprint(last)}
	for ev, err := range c.Follow(ctx, q) {
		switch {
		case err != nil && ctx.Err() == nil:
			t.violation(thread, "the client stopped following: %v", err)
		case ev.Entry == nil:
		case ev.Entry.Seq != last+1:
			t.violation(thread, "the client returned entry %[2]d after entry %[1]d", last, ev.Entry.Seq)
			fallthrough
		default:
			last = ev.Entry.Seq
		}
	}
}
