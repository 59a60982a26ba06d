package doctor

import (
	"unicode/utf8"

	"mailroom"
	"mailroom/doctor/fold"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
	"mailroom/store"
)

// runs compares the next page of run rows with the log.
func (p *checker) runs() (cost int, err error) {
	rows, err := p.r.Runs(store.RunQuery{Thread: p.t.ID, From: p.from, Limit: batch})
	if err != nil {
		return 0, err
	}
	if err := p.runRows(rows); err != nil {
		return 0, err
	}
	for _, r := range rows {
		p.from = r.Key
	}
	return p.next(len(rows), phaseTickets)
}

// runRows checks rows of runs with their flushed text and their keys.
func (p *checker) runRows(rows []*mailroom.Run) error {
	if len(rows) == 0 {
		return nil
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	pieces, err := p.r.Partials(ids...)
	if err != nil {
		return err
	}
	of := map[string][]store.Partial{}
	for _, piece := range pieces {
		of[piece.Run] = append(of[piece.Run], piece)
	}
	for _, r := range rows {
		if err := p.run(r, of[r.ID]); err != nil {
			return err
		}
	}
	return p.keys(rows)
}

func (p *checker) run(r *mailroom.Run, pieces []store.Partial) error {
	p.report.Runs++
	p.limits(r)
	p.bounds(r)
	p.stop(r)
	p.place(r)
	if t := p.log.Runs[r.ID]; t != nil {
		t.Seen = true
		p.compare(r, t)
	} else if r.FirstSeq >= p.t.FirstSeq {
		p.badRun(Log, r.ID, "no entry names run %s", r.ID)
	}
	if r.FirstSeq < p.t.FirstSeq {
		p.badRun(Log, r.ID, "run %s begins at %d, before the first entry kept, %d", r.ID, r.FirstSeq, p.t.FirstSeq)
	}
	p.inputs(r)
	p.partials(r, pieces)
	if err := p.waits(r); err != nil {
		return err
	}
	if err := p.budget(r); err != nil {
		return err
	}
	return p.caller(r)
}

// limits checks that values that a submit bounds are within their bounds.
func (p *checker) limits(r *mailroom.Run) {
	for _, x := range []struct {
		of         string
		is, lo, hi int
	}{
		{"priority", r.Priority, 0, 255},
		{"max_attempts", r.MaxAttempts, 1, 100},
		{"number of characters of its key", utf8.RuneCountInString(r.SubmitKey), 0, mailroom.MaxSubmitKey},
		{"size of its options", len(r.Options), 0, mailroom.MaxOptions},
		{"size of its checkpoint", len(r.Checkpoint), 0, mailroom.MaxCheckpoint},
		{"number of threads it was sent through", len(r.Lineage), 0, mailroom.MaxHops},
	} {
		if x.is < x.lo || x.is > x.hi {
			p.badRun(Limit, r.ID, "run %s: the %s is %d, which should be between %d and %d", r.ID, x.of, x.is, x.lo, x.hi)
		}
	}
	if r.ClaimSpare < 0 || r.ClaimSpare > 0 && r.ClaimEnds.IsZero() {
		p.badRun(Limit, r.ID, "run %s: its claim has %v to spare, which should be zero without a claim, and never below",
			r.ID, setting.FormatDuration(r.ClaimSpare))
	}
	if r.WaitsOn != "" && r.Status != mailroom.StatusRunning {
		p.badRun(Limit, r.ID, "run %s is %s and says that it waits for %q", r.ID, r.Status, r.WaitsOn)
	}
	since := r.CreatedAt
	if r.JoinSince.After(since) {
		since = r.JoinSince
	}
	if r.Scheduled && r.Joins && r.NotBefore.Sub(since) > mailroom.MaxJoin {
		p.badRun(Limit, r.ID, "run %s waits from %s until %s for more messages, which should be at most %s",
			r.ID, at(since), at(r.NotBefore), setting.FormatDuration(mailroom.MaxJoin))
	}
	p.retries(r)
}

// retries checks the retry policies of a run: the ones of its last claim and of its submit.
func (p *checker) retries(r *mailroom.Run) {
	if r.RetryFirst < 0 || r.RetryFirst > r.RetryMost || r.RetryMost > retry.MaxDelay ||
		(r.RetryFirst == 0) != (r.RetryMost == 0) {
		p.badRun(Limit, r.ID,
			"run %s: its retries are delayed by %v to %v, which should be both zero, or at most %v and grow", r.ID,
			setting.FormatDuration(r.RetryFirst), setting.FormatDuration(r.RetryMost),
			setting.FormatDuration(retry.MaxDelay))
	}
	last := retry.Policy{Factor: r.RetryFactor, OutageMost: r.RetryOutageMost, Outage: r.RetryOutage}
	if err := last.Check(); err != nil {
		p.badRun(Limit, r.ID, "run %s: the retry policy of its last claim has %v", r.ID, err)
	}
	if _, err := retry.Parse(r.SubmitRetry); err != nil {
		p.badRun(Limit, r.ID, "run %s: the retry policy of its submit has %v", r.ID, err)
	}
}

// bounds checks that a run has failed if its failures, crashes or lost claims have reached their bound.
func (p *checker) bounds(r *mailroom.Run) {
	dead := r.Status == mailroom.StatusFailed
	for _, x := range []struct {
		of        string
		is, bound int
	}{
		{"failures", r.Failures, r.MaxAttempts}, {"crashes", r.Crashes, max(r.MaxCrashes(), 1)},
		{"lost claims", r.Lost, mailroom.MaxLost},
	} {
		if x.is < 0 || x.is > x.bound || x.is == x.bound && !dead {
			p.badRun(Attempt, r.ID, "run %s is %s with %d %s; at %d it is a dead letter", r.ID, r.Status, x.is, x.of, x.bound)
		}
	}
	if r.LostForGood() && !dead && !r.Status.Finished() {
		p.badRun(Attempt, r.ID,
			"run %s is %s after %d lost claims, %d of them crashes in a row; at most %d crashes are allowed", r.ID, r.Status,
			r.Lost, r.Crashes, r.MaxCrashes())
	}
	if r.Crashes > r.Lost {
		p.badRun(Attempt, r.ID, "run %s has %d crashes in a row but only %d lost claims in all", r.ID, r.Crashes, r.Lost)
	}
	if last := r.LastStep; last.Attempt > r.Attempt || last.Step > r.Step+1 || last.Seq > p.t.LastSeq {
		p.badRun(Attempt, r.ID,
			"run %s has last step %d of attempt %d at entry %d, but is at step %d of attempt %d; the log ends at %d",
			r.ID, last.Step, last.Attempt, last.Seq, r.Step, r.Attempt, p.t.LastSeq)
	}
}

// stop checks that only a running run has a request to stop it.
func (p *checker) stop(r *mailroom.Run) {
	if r.Stop != "" && (r.Status == mailroom.StatusQueued || r.Status == mailroom.StatusWaiting ||
		r.Status == mailroom.StatusFailed) {
		p.badRun(Log, r.ID, "run %s was asked to stop (%s) and is %s, not cancelled", r.ID, r.Stop, r.Status)
	}
	if r.Status == mailroom.StatusFailed && r.Error == nil {
		p.badRun(Log, r.ID, "run %s failed without an error", r.ID)
	}
	if r.Status != mailroom.StatusFailed && r.ErrorGroup != "" {
		p.badRun(Log, r.ID, "run %s is %s and has the error group %s, which only a failed run has", r.ID, r.Status,
			r.ErrorGroup)
	}
	if r.Scheduled && (!r.NeverStarted() && !r.Status.Finished() || r.NotBefore.IsZero()) {
		p.badRun(Order, r.ID, "run %s is scheduled for %s but is %s", r.ID, at(r.NotBefore), r.Status)
	}
}

// place checks that the place of a run is unique in its thread, and below the next place of the thread.
func (p *checker) place(r *mailroom.Run) {
	p.placed(r)
	for _, s := range r.Steers {
		if s.Own != nil {
			p.placed(s.Own)
		}
	}
}

func (p *checker) placed(r *mailroom.Run) {
	if r.Place < 1 || r.Place >= p.t.NextPlace {
		p.badRun(Order, r.ID, "run %s has place %d, the next one of the thread is %d", r.ID, r.Place, p.t.NextPlace)
	}
	if other := p.places[r.Place]; other != "" && other != r.ID {
		p.badRun(Order, r.ID, "runs %s and %s have the same place %d", other, r.ID, r.Place)
	}
	p.places[r.Place] = r.ID
}

// compare checks that the row of a run agrees with the log.
func (p *checker) compare(r *mailroom.Run, t *fold.Run) {
	if !allows(t.State, r) {
		p.badRun(Log, r.ID, "run %s is %s, the log leaves it %s", r.ID, describe(r), t.State)
		return // all else would follow from that
	}
	if t.Attempt != r.Attempt {
		p.badRun(Attempt, r.ID, "run %s is at attempt %d, the log at %d", r.ID, r.Attempt, t.Attempt)
	}
	failures := t.Failures
	if r.Status == mailroom.StatusQueued && r.Resumes || r.Status == mailroom.StatusFailed || t.Parked && r.Failures == 0 {
		failures = r.Failures // reset when it resumes; those of a failed run are compared with its end
	}
	if failures != r.Failures || t.Lost != r.Lost {
		p.badRun(Attempt, r.ID, "run %s has %d failures and %d lost claims, the log has %d and %d", r.ID, r.Failures, r.Lost,
			failures, t.Lost)
	}
	if t.Asked != r.Asked {
		p.badRun(Ticket, r.ID, "the row of run %s counts %d opened tickets, the log has %d", r.ID, r.Asked, t.Asked)
	}
	if fold.Micros(r.StartedAt) != t.Started || fold.Micros(r.FinishedAt) != t.Ended {
		p.badRun(Log, r.ID, "run %s started at %s and ended at %s, the log differs", r.ID, at(r.StartedAt), at(r.FinishedAt))
	}
	// AvailableAt may be earlier than in the log, because a clock that was set back brings it forward.
	if t.State == fold.StateRescheduled && fold.Micros(r.AvailableAt) > t.Available {
		p.badRun(Log, r.ID, "run %s may be claimed from %s on, the log differs", r.ID, at(r.AvailableAt))
	}
	if e := r.LastError; e != nil && (t.State != fold.StateRescheduled || p.log.Hash(fold.Retry(e)) != t.LastError) {
		p.badRun(Log, r.ID, "run %s waits for a retry after the error %q, which is not that of its last attempt in the log",
			r.ID, e.Message)
	}
	if t.State == fold.StateRunning && r.Stop != t.Stop {
		p.badRun(Log, r.ID, "run %s has the request to stop %q, the log has %q", r.ID, r.Stop, t.Stop)
	}
	p.ending(r, t)
	p.started(r, t)
}

// ending compares reply, error or reason with the entry that ended the run.
func (p *checker) ending(r *mailroom.Run, t *fold.Run) {
	end := ""
	switch {
	case r.Status == mailroom.StatusCompleted:
		end = fold.Completion(r.Reply, r.Step)
	case r.Status == mailroom.StatusFailed && r.Error != nil:
		end = fold.Failure(r.Error, r.Failures, r.Crashes)
	case r.Status == mailroom.StatusCancelled:
		end = string(r.Reason)
	default:
		return
	}
	if p.log.Hash(end) != t.End {
		p.badRun(Log, r.ID, "run %s is %s with a reply, error or reason that differs from the log", r.ID, r.Status)
	}
}

// started checks that the inputs in the row are those that the entry of the first start lists.
func (p *checker) started(r *mailroom.Run, t *fold.Run) {
	if r.Started != t.Read {
		p.badRun(Message, r.ID, "the row of run %s says started=%t, the log started=%t", r.ID, r.Started, t.Read)
		return
	}
	var seqs []int64
	for _, in := range r.Inputs {
		if !in.Retracted {
			seqs = append(seqs, in.Seq)
		}
	}
	if r.Started && p.log.HashSeqs(seqs) != t.Inputs {
		p.badRun(Message, r.ID, "run %s was started with messages other than entries %d", r.ID, seqs)
	}
	if t.Whole && r.InputBytes != 0 && r.InputBytes != t.Bytes {
		p.badRun(Use, r.ID, "the messages of run %s have %d bytes in the log, its row says %d", r.ID, t.Bytes, r.InputBytes)
	}
	if r.NeverStarted() && len(seqs) == 0 {
		p.badRun(Message, r.ID, "run %s is queued without a message", r.ID)
	}
}

// describe returns the status of a run, with the reason if the run is queued.
func describe(r *mailroom.Run) string {
	switch {
	case r.Status != mailroom.StatusQueued:
		return string(r.Status)
	case r.Resumes:
		return "queued after a wait"
	case r.NeverStarted():
		return "queued for its first start"
	}
	return "queued between attempts"
}

// inputs checks that a run names the entries that have the text of its messages.
func (p *checker) inputs(r *mailroom.Run) {
	for _, in := range r.Inputs {
		p.input(r, in)
	}
	for _, s := range r.Steers {
		p.input(r, s.Input)
		if !s.Read && !s.Retracted && r.ID != p.t.Current {
			p.badRun(Steer, r.ID, "run %s has the unread steered message %s, and is not the current one", r.ID, s.Message)
		}
	}
}

// partials checks that only a running run has flushed text, and that the text is of its current attempt and in
// adjacent pieces.
func (p *checker) partials(r *mailroom.Run, pieces []store.Partial) {
	p.report.Partials += len(pieces)
	if len(pieces) > 0 && r.Status != mailroom.StatusRunning {
		p.badRun(Partial, r.ID, "run %s is %s and has flushed text", r.ID, r.Status)
		return
	}
	if r.Flushed != (len(pieces) > 0) {
		p.badRun(Partial, r.ID, "run %s has %d pieces of flushed text, its row says flushed=%v", r.ID, len(pieces), r.Flushed)
	}
	offset := 0
	for _, piece := range pieces {
		if piece.Offset != offset || piece.Message != pieces[0].Message {
			p.badRun(Partial, r.ID,
				"flushed text of run %s has a piece of message %s at %d; one of message %s at %d is expected",
				r.ID, piece.Message, piece.Offset, pieces[0].Message, offset)
		}
		if piece.Attempt != r.Attempt || piece.Thread != r.Thread {
			p.badRun(Partial, r.ID, "flushed text of run %s is of attempt %d in thread %q, the run is at attempt %d", r.ID,
				piece.Attempt, piece.Thread, r.Attempt)
		}
		offset = piece.Offset + len(piece.Text)
	}
}

// keys checks that the submit key of a run is remembered, with the message that made the run.
func (p *checker) keys(runs []*mailroom.Run) error {
	var names []string
	for _, r := range runs {
		if r.SubmitKey != "" {
			names = append(names, r.SubmitKey)
		}
	}
	if len(names) == 0 {
		return nil
	}
	rows, err := p.r.Keys(store.KeyQuery{Thread: p.t.ID, Keys: names})
	if err != nil {
		return err
	}
	known := make(map[string]store.SubmitKey, len(rows))
	for _, k := range rows {
		known[k.Key] = k
	}
	p.report.Keys += len(rows)
	for _, r := range runs {
		if r.SubmitKey != "" {
			p.key(r, known)
		}
	}
	return nil
}

func (p *checker) key(r *mailroom.Run, known map[string]store.SubmitKey) {
	k, ok := known[r.SubmitKey]
	if !ok {
		p.badRun(Key, r.ID, "key %q of run %s is not remembered", r.SubmitKey, r.ID)
		return
	}
	if made, _ := fold.SplitID(k.Result.Message); made != r.ID {
		p.badRun(Key, r.ID, "key %q of run %s is remembered for message %s, which made run %s", k.Key, r.ID,
			k.Result.Message, made)
		return
	}
	if k.Result.Thread != p.t.ID || k.Result.Disposition == store.DispositionQueued && k.Result.Run != r.ID {
		p.badRun(Key, r.ID, "key %q of run %s answers with run %s in thread %q", k.Key, r.ID, k.Result.Run, k.Result.Thread)
	}
	if _, seq := fold.SplitID(k.Result.Message); seq != k.Result.Seq || seq > p.t.LastSeq {
		p.badRun(Key, r.ID, "key %q of run %s answers with entry %d for message %s", k.Key, r.ID, k.Result.Seq,
			k.Result.Message)
	}
}
