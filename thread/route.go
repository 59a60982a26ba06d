package thread

import (
	"mailroom"
)

// route is where the messages of a submit go.
type route int

const (
	routeQueue   route = iota // the messages get a run of their own, in the queue
	routeJoin                 // the messages join the newest run of the queue, which waits for them
	routeCollect              // the messages join the newest run of the queue that fits
	routeSteer                // the current run reads the messages at its next step
	routeAnswer               // the messages answer the first open question of the parked current run
	routeResume               // the messages end the wait of the parked current run without an answer
)

// route returns where the messages go now, and the run that gets them unless they get a new one.
// The parked current run comes first, in every mode but interrupt. The mode decides about all others:
//
//	mode       no current run  at work  waits: input  waits: event  waits: approval  waits: children, timer
//	queue      queue           queue    answer        resume        queue            queue
//	steer      queue           steer    answer        resume        steer            queue
//	collect    collect         collect  answer        resume        collect          collect
//	latest     queue           queue    answer        resume        queue            queue
//	reject     queue           queue    answer        queue         queue            queue
//	interrupt  queue           queue    queue         queue         queue            queue
//
// A current run that was asked to stop accepts no messages. A wait that has expired counts as at work. A waiting
// run gets no messages for another agent, no scheduled messages, and no messages of a run that wants an answer.
// Messages of a run never answer a question. Where nothing fits, collect goes to the queue. Messages that join a
// run ([submission.joinable]) take routeJoin instead of collect or queue. This function does not decide what
// becomes of earlier runs: in the modes latest and interrupt, [submission.apply] supersedes them, and in the mode
// reject a busy thread refuses the submit.
func (s *submission) route() (route, *mailroom.Run) {
	if len(s.in.Messages) == 0 {
		return routeQueue, nil
	}
	c := s.t.current()
	if to := s.routeToParked(c); to != routeQueue {
		return to, c
	}
	if s.in.Mode == mailroom.ModeSteer && s.canSteer(c) {
		return routeSteer, c
	}
	if r := s.joinable(); r != nil {
		return routeJoin, r
	}
	if s.in.Mode == mailroom.ModeCollect {
		if r := s.collectable(); r != nil {
			return routeCollect, r
		}
	}
	return routeQueue, nil
}

// routeToParked returns routeAnswer if the messages answer a question of the current run,
// routeResume if the run waits for something that messages do not concern, and else routeQueue.
// Messages of other runs answer no question. Scheduled messages and awaited child runs need a run
// of their own. An expired question accepts no answer.
func (s *submission) routeToParked(c *mailroom.Run) route {
	in, tickets := s.in, &s.t.Tickets
	if c == nil || c.Status != mailroom.StatusWaiting || c.Stop != "" || in.Mode == mailroom.ModeInterrupt ||
		in.Agent != "" && in.Agent != c.Agent || in.NotBefore.After(s.now) ||
		in.From != nil && in.From.Caller != nil || tickets.waitExpired(c, s.now) {
		return routeQueue
	}
	fromRun := in.Origin.Via == "run" || in.Origin.Via == "wake"
	switch kind := tickets.waitKind(c, s.now); {
	case kind == mailroom.TicketInput && !fromRun:
		return routeAnswer
	case kind == mailroom.TicketEvent && in.Mode != mailroom.ModeReject:
		return routeResume
	}
	return routeQueue
}

// canSteer reports whether the current run accepts the steered messages.
func (s *submission) canSteer(c *mailroom.Run) bool {
	if c == nil || c.Stop != "" || c.Agent != s.found.Agent || s.in.ExpectRun != "" && s.in.ExpectRun != c.ID {
		return false
	}
	tickets := &s.t.Tickets
	return c.Status != mailroom.StatusWaiting || tickets.waitExpired(c, s.now) ||
		tickets.waitKind(c, s.now) == mailroom.TicketApproval
}

// collectable returns the newest run, if it was never claimed and has the same agent and sender. The messages of a run
// join only a run that the same run has sent, unless that one is awaited. A manually retried run has listed its inputs
// already, so a message added to it would be in no transcript. A full run accepts nothing more, and older runs are not
// considered, to keep the order of messages.
func (s *submission) collectable() *mailroom.Run {
	from := ""
	if s.in.From != nil {
		from = s.in.Parent
	}
	newest := s.t.Runs.queue.newest(func(r *mailroom.Run) bool {
		return !r.Started && r.Agent == s.found.Agent && r.Origin.Sender == s.in.Origin.Sender &&
			r.Parent == from && r.Caller == nil
	})
	if newest == nil || !s.fits(newest) {
		return nil
	}
	return newest
}

// fits reports whether r has room for the messages.
func (s *submission) fits(r *mailroom.Run) bool {
	return len(r.Inputs)+len(s.in.Messages) <= mailroom.MaxMessages && r.InputBytes+2*int64(s.in.Size()) <= maxCollected
}
