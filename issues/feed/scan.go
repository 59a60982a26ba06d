package feed

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
	"mailroom/issues/tracker"
	"mailroom/store"
)

// receiver is the state of one call of receive.
//
// This channel has no cursor: a claim in the file carries the key of its run, and each poll makes the file and the
// ledger agree. It is a [channel.Adapter] and not an HTTP client of the server, so deliveries, retries and parking
// follow the rules of the other channels, and the server needs no token for itself.
type receiver struct {
	*Watcher
	host   *channel.Host
	server string

	// The file as last read, and this server's claims in it.
	tracker *tracker.Tracker
	claims  []claim
	info    fs.FileInfo
	recent  bool // modified so recently that a further change may have the same time

	lastFullScan time.Time // last scan that included concluded claims
	wakeUp       bool
	runIDs       map[string]string // run ids by submit key, as found in the ledger
	abandoned    map[string]bool   // submit keys of claims that need no further work

	reserved map[string]reservation // reservations by issue; nil before loadReservations
}

const (
	// mtimeResolution is the age that a modification time must have to identify a version of the file. A younger file
	// may change again without a new modification time.
	mtimeResolution = time.Second
	// fullScanInterval is how often claims are checked whose end is already recorded, because their run may have been
	// retried. A delivery triggers a check earlier.
	fullScanInterval = 30 * time.Second
)

// refresh returns the issues. changed is false if the file has not changed since the last call.
func (r *receiver) refresh() (t *tracker.Tracker, changed bool, err error) {
	info, err := r.options.Folder.Stat()
	if err != nil {
		return nil, false, fmt.Errorf("stat tracker: %w", err)
	}
	if r.info != nil && !r.recent && os.SameFile(info, r.info) && info.Size() == r.info.Size() &&
		info.ModTime().Equal(r.info.ModTime()) {
		return r.tracker, false, nil
	}
	t, invalid, err := r.options.Folder.Read()
	if err != nil {
		return nil, false, err
	}
	r.findings.report(r.host, findingsOf(r.options.Folder.File(), t, invalid), true)
	r.tracker, r.claims = t, ownClaims(t, r.server)
	r.info, r.recent = info, time.Since(info.ModTime()) < mtimeResolution
	return t, true, nil
}

// claim is an issue with the marker of this server.
type claim struct {
	issue *tracker.Issue
	marker
}

// inProgress reports whether the issue is in progress and the end of its run is not recorded yet.
func (c claim) inProgress() bool {
	return c.issue.Status == tracker.StatusInProgress && c.Concluded.IsZero()
}

// claimedID returns the id under which the issue was claimed. The issue may have been renamed
// since.
func (c claim) claimedID() string {
	if at := strings.LastIndexByte(c.Key, '@'); at > 0 {
		return c.Key[:at]
	}
	return c.issue.ID
}

// ownClaims returns the claims of this server, except those that need no further work.
func ownClaims(t *tracker.Tracker, server string) (found []claim) {
	for _, it := range t.All() {
		ended := it.Status == tracker.StatusClosed || it.Status == tracker.StatusTombstone
		if m, ours := markerOf(it, server); ours && (!ended || m.Concluded.IsZero()) {
			found = append(found, claim{it, m})
		}
	}
	return found
}

// scan makes the file and the ledger agree once. It reports in again whether another scan should follow at once.
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
	found := slices.DeleteFunc(slices.Clone(r.claims), func(c claim) bool {
		return r.abandoned[c.Key] || !all && !c.Concluded.IsZero()
	})
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

// reportProgress reports to the channel how many issues are ready and in progress, and whether max_claimed keeps
// ready issues from being claimed.
func (r *receiver) reportProgress(ready, room int) {
	busy, held := r.options.MaxClaims-room, ""
	if room <= 0 && ready > 0 {
		held = fmt.Sprintf("max_claimed %d reached; %d more issues are ready", r.options.MaxClaims, ready)
	}
	r.host.ReportProgress(channel.Progress{Cursor: fmt.Sprintf("%d ready", ready), Unacked: busy, Blocked: held})
}

// reconcile makes the ledger match the file: it submits claims that were not submitted, and cancels
// runs that have not started and whose issue was taken back. It reports whether it cancelled a run.
func (r *receiver) reconcile(
	ctx context.Context, t *tracker.Tracker, found []claim, runs map[string]*mailroom.Run,
) (stopped bool, err error) {
	for _, c := range found {
		run := runs[c.Key]
		switch {
		case run == nil && c.inProgress() && r.agentOf(c.issue) != "":
			if err := r.submit(ctx, t, c); err != nil {
				return stopped, err
			}
		case run == nil:
		case run.NeverStarted() && !c.isUnchanged(run) && c.Concluded.IsZero():
			r.host.Log().Info("issue taken back before its run started; cancelling", "issue", c.issue.ID, "run", run.ID,
				"status", c.issue.Status)
			if err := r.host.Cancel(ctx, run.ID); err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
				return stopped, err
			}
			stopped, r.info = true, nil // an open issue can be claimed again
		case run.Status.Finished() && (!started(run) && c.issue.Status == tracker.StatusClosed ||
			c.issue.Status == tracker.StatusTombstone):
			r.abandoned[c.Key] = true
		}
	}
	return stopped, nil
}

func started(run *mailroom.Run) bool { return !run.StartedAt.IsZero() }

// submit submits an issue to its agent.
func (r *receiver) submit(ctx context.Context, t *tracker.Tracker, c claim) error {
	_, err := r.host.Submit(ctx, channel.Inbound{
		Chat: []string{c.claimedID()}, Key: c.Key, Parts: mailroom.Text(issueText(t, c.issue)), Sender: Kind,
		Agent: r.agentOf(c.issue), Metadata: map[string]string{Label: c.issue.ID}, Cursor: cursor(r.server),
	})
	switch mailroom.CodeOf(err) {
	case mailroom.CodeInvalid, mailroom.CodeTooLarge, mailroom.CodeNotFound, mailroom.CodeConflict:
		r.host.ReportError(fmt.Errorf("cannot submit issue %s to %s: %w", c.issue.ID, c.issue.Assignee, err))
		return r.blockRefused(ctx, c, err)
	}
	return err
}

// Label is the metadata key of a run that holds its issue's id.
const Label = "issue"

// blockRefused blocks an issue whose submit the ledger refused.
func (r *receiver) blockRefused(ctx context.Context, c claim, cause error) error {
	return r.update(ctx, r.host, func(t *tracker.Tracker) error {
		for _, now := range ownClaims(t, r.server) {
			if now.Key != c.Key || !now.inProgress() {
				continue
			}
			at := writeTime(now.issue.UpdatedAt)
			return updateIssue(t, now, at, func(it *tracker.Issue, m *marker) {
				addComment(it, systemAuthor, "Cannot submit this issue to "+it.Assignee+": "+cause.Error(), at, at)
				it.Status, m.Concluded = tracker.StatusBlocked, at
			})
		}
		return nil // the issue has changed since
	})
}

// runs returns the runs of claims by submit key. A claim that was never submitted, or whose thread
// was deleted, has a nil run.
func (r *receiver) runs(ctx context.Context, found []claim) (map[string]*mailroom.Run, error) {
	runs := map[string]*mailroom.Run{}
	for some := range slices.Chunk(found, viewBatch) {
		err := r.host.View(ctx, func(rd store.Reader) error { return r.runsOf(rd, some, runs) })
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// viewBatch is the number of rows read in one snapshot.
const viewBatch = 200

func (r *receiver) runsOf(rd store.Reader, some []claim, runs map[string]*mailroom.Run) error {
	keys := map[string]string{}
	var ids []string
	for _, c := range some {
		runs[c.Key] = nil
		if r.runIDs[c.Key] == "" {
			known, err := rd.Keys(store.KeyQuery{Thread: Thread(r.host.Name(), c.claimedID()), Keys: []string{c.Key}})
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
	rows, err := rd.Runs(store.RunQuery{IDs: ids})
	for _, run := range rows {
		runs[keys[run.ID]] = run
	}
	return err
}
