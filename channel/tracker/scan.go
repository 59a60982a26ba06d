package tracker

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	issues "mailroom/tracker"
)

// receiver is one time of watching: from a start to the first thing that fails.
type receiver struct {
	*Watcher
	host   *channel.Host
	server string

	// The file as it was read last, and the claims in it.
	tracker *issues.Tracker
	claims  []claim
	info    fs.FileInfo
	recent  bool // it was so new then that another change may look the same

	lastFullScan time.Time // when all claims were looked at, those that were told of too
	wakeUp       bool
	runIDs       map[string]string // runs by the key of their submit, as the ledger has said
	abandoned    map[string]bool   // keys of claims of which nothing can come any more

	reserved map[string]reservation // by issue; nil: it was not looked for any yet
}

const (
	// mtimeResolution is how old a change must be for the next one to have another time.
	mtimeResolution = time.Second
	// fullScanInterval is how often claims are looked at whose end was told: their run
	// may have been retried. A delivery tells it sooner.
	fullScanInterval = 30 * time.Second
)

// refresh returns the issues. changed is false if they are those of the last time.
func (r *receiver) refresh() (t *issues.Tracker, changed bool, err error) {
	file := r.options.Folder.File()
	info, err := r.options.Folder.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("look at the tracker: %w", err)
	}
	if r.info != nil && !r.recent && os.SameFile(info, r.info) && info.Size() == r.info.Size() && info.ModTime().Equal(r.info.ModTime()) {
		return r.tracker, false, nil
	}
	t, strays, err := r.options.Folder.Read()
	if err != nil {
		return nil, false, err
	}
	if len(strays) > 0 {
		r.host.ReportError(fmt.Errorf("%d lines of %s are no issues; the next change puts them aside: %w", len(strays), file, strays[0].Err))
	}
	r.tracker, r.claims = t, ownClaims(t, r.server)
	r.info, r.recent = info, time.Since(info.ModTime()) < mtimeResolution
	return t, true, nil
}

// claim is an issue that this server has claimed, now or once.
type claim struct {
	issue *issues.Issue
	marker
}

// inProgress reports whether the issue is in progress because of the claim.
func (c claim) inProgress() bool {
	return c.issue.Status == issues.StatusInProgress && c.Concluded.IsZero()
}

// claimedID is the id under which the issue was claimed: it may have got another since.
func (c claim) claimedID() string {
	if at := strings.LastIndexByte(c.Key, '@'); at > 0 {
		return c.Key[:at]
	}
	return c.issue.ID
}

// ownClaims are those of this server that something can still come of.
func ownClaims(t *issues.Tracker, server string) (found []claim) {
	for _, it := range t.All() {
		ended := it.Status == issues.StatusClosed || it.Status == issues.StatusTombstone
		if m, ours := markerOf(it, server); ours && (!ended || m.Concluded.IsZero()) {
			found = append(found, claim{it, m})
		}
	}
	return found
}

// scan does what is to be done. It reports whether there is more already.
func (r *receiver) scan(ctx context.Context) (again bool, err error) {
	t, changed, err := r.refresh()
	if err != nil {
		return false, err
	}
	r.host.Received()
	all := changed || r.wakeUp || time.Since(r.lastFullScan) >= fullScanInterval
	if all {
		r.lastFullScan, r.wakeUp = time.Now(), false
	}
	found := slices.DeleteFunc(slices.Clone(r.claims), func(c claim) bool { return r.abandoned[c.Key] || !all && !c.Concluded.IsZero() })
	runs, err := r.runs(ctx, found)
	if err != nil {
		return false, err
	}
	stopped, err := r.reconcile(ctx, t, found, runs)
	if err != nil {
		return false, err
	}
	news := slices.ContainsFunc(found, func(c claim) bool { return c.isOutdated(runs[c.Key]) })
	if !all && !news {
		return stopped, nil
	}
	if err := r.syncReservations(ctx); err != nil {
		return false, err
	}
	ready, room := r.ready(t, runs)
	r.reportProgress(len(ready), room)
	if err := r.reserveNext(ctx, ready, room); err != nil {
		return false, err
	}
	if news || room > 0 && len(ready) > 0 {
		return true, r.updateFile(ctx, runs)
	}
	return stopped, nil
}

// reportProgress shows where the tracker is.
func (r *receiver) reportProgress(ready, room int) {
	busy, held := r.options.MaxClaims-room, ""
	if room <= 0 && ready > 0 {
		held = fmt.Sprintf("max_claimed %d is reached, %d more are ready", r.options.MaxClaims, ready)
	}
	r.host.ReportProgress(channel.Progress{Cursor: fmt.Sprintf("%d ready", ready), Unacked: busy, Blocked: held})
}

// reconcile makes the ledger agree with the file: what is claimed and was not
// submitted is submitted, and what is not ours any more and never started is
// cancelled. It reports whether it cancelled something.
func (r *receiver) reconcile(ctx context.Context, t *issues.Tracker, found []claim, runs map[string]*mailroom.Run) (stopped bool, err error) {
	for _, c := range found {
		run := runs[c.Key]
		switch {
		case run == nil && c.inProgress() && r.agentOf(c.issue) != "":
			if err := r.submit(ctx, t, c); err != nil {
				return stopped, err
			}
		case run == nil:
		case run.NeverStarted() && !c.isUnchanged(run) && c.Concluded.IsZero():
			r.host.Log().Info("an issue was taken back before its run has started", "issue", c.issue.ID, "run", run.ID, "status", c.issue.Status)
			if err := r.host.Cancel(ctx, run.ID); err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
				return stopped, err
			}
			stopped, r.info = true, nil // an open one can be given again
		case run.Status.Finished() && (!started(run) && c.issue.Status == issues.StatusClosed || c.issue.Status == issues.StatusTombstone):
			r.abandoned[c.Key] = true
		}
	}
	return stopped, nil
}

func started(run *mailroom.Run) bool { return !run.StartedAt.IsZero() }

// submit hands an issue to the mailbox of its agent.
func (r *receiver) submit(ctx context.Context, t *issues.Tracker, c claim) error {
	_, err := r.host.Submit(ctx, channel.Inbound{
		Chat: []string{c.claimedID()}, Key: c.Key, Parts: mailroom.Text(issueText(t, c.issue)), Sender: Kind,
		Agent: r.agentOf(c.issue), Metadata: map[string]string{Label: c.issue.ID}, Cursor: cursor(r.server),
	})
	switch mailroom.CodeOf(err) {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound, mailroom.CodeConflict:
		r.host.ReportError(fmt.Errorf("issue %s cannot be given to %s: %w", c.issue.ID, c.issue.Assignee, err))
		return r.blockRefused(ctx, c, err)
	}
	return err
}

// Label is the member of a run's metadata that has the id of its issue.
const Label = "issue"

// blockRefused blocks an issue that the ledger does not take.
func (r *receiver) blockRefused(ctx context.Context, c claim, why error) error {
	return r.update(ctx, r.host, func(t *issues.Tracker) error {
		for _, now := range ownClaims(t, r.server) {
			if now.Key != c.Key || !now.inProgress() {
				continue
			}
			at := writeTime(now.issue.UpdatedAt)
			return updateIssue(t, now, at, func(it *issues.Issue, m *marker) {
				addComment(it, systemAuthor, "It cannot be given to "+it.Assignee+": "+why.Error(), at, at)
				it.Status, m.Concluded = issues.StatusBlocked, at
			})
		}
		return nil // somebody was quicker
	})
}

// runs finds the runs of claims, by key. One that was never submitted, or whose
// thread was deleted, has nil.
func (r *receiver) runs(ctx context.Context, found []claim) (map[string]*mailroom.Run, error) {
	runs := map[string]*mailroom.Run{}
	for some := range slices.Chunk(found, viewBatch) {
		err := r.host.View(ctx, func(rd mailroom.Reader) error { return r.runsOf(rd, some, runs) })
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// viewBatch is how many rows are looked at in one snapshot.
const viewBatch = 200

func (r *receiver) runsOf(rd mailroom.Reader, some []claim, runs map[string]*mailroom.Run) error {
	keys := map[string]string{}
	var ids []string
	for _, c := range some {
		runs[c.Key] = nil
		if r.runIDs[c.Key] == "" {
			known, err := rd.Keys(Thread(r.host.Name(), c.claimedID()), []string{c.Key})
			if err != nil {
				return err
			}
			if len(known) == 0 {
				continue
			}
			r.runIDs[c.Key] = known[0].Result.Run
		}
		keys[r.runIDs[c.Key]] = c.Key
		ids = append(ids, r.runIDs[c.Key])
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := rd.Runs(mailroom.RunQuery{IDs: ids})
	for _, run := range rows {
		runs[keys[run.ID]] = run
	}
	return err
}
