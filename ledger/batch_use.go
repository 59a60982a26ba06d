package ledger

import (
	"maps"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// threadUse is what a thread counted for when the batch locked it.
type threadUse struct {
	owner  string
	use    auth.Use
	unread map[string]int64 // see Thread.Unread
}

func useOfThread(t *mailroom.Thread, there bool) threadUse {
	if !t.DeletedAt.IsZero() {
		return threadUse{owner: t.Owner}
	}
	h := threadUse{owner: t.Owner, use: auth.Use{Bytes: t.Bytes}, unread: maps.Clone(t.Unread)}
	if there {
		h.use.Threads = 1
	}
	return h
}

// add adds the thread's use to the sums by owner, or subtracts it with sign -1.
func (h *threadUse) add(sums map[string]auth.Use, sign int64) {
	if sign < 0 {
		sums[h.owner] = sums[h.owner].Minus(h.use)
	} else {
		sums[h.owner] = sums[h.owner].Plus(h.use)
	}
	for by, n := range h.unread {
		sums[by] = sums[by].Plus(auth.Use{Notifications: sign * n})
	}
}

// quotaRow returns the token row that sums up an owner's use, or nil for the operator, who has no
// quotas, and for a name without a token.
func (b *batch) quotaRow(owner string) (*auth.Token, error) {
	if !limitsApply(owner) {
		return nil, nil
	}
	return b.rows.token(owner)
}

// limitsApply reports whether an owner can have quotas.
func limitsApply(owner string) bool { return owner != "" && owner != auth.Operator }

// useChanges returns the changes of this batch to the use of owners.
func (b *batch) useChanges() map[string]auth.Use {
	sums := maps.Clone(b.workerChanges)
	for id, was := range b.rows.before {
		if t := b.rows.threads[id]; t.Changed() || b.dropped[id] {
			was.use.add(sums, -1)
		}
	}
	for _, t := range b.rows.threads {
		if t.Changed() {
			now := useOfThread(&t.Thread, true)
			now.add(sums, 1)
		}
	}
	return sums
}

// saveUse writes the changed use of owners, in the transaction of the rows that it sums up.
func (b *batch) saveUse() {
	sums := b.useChanges()
	for _, owner := range slices.Sorted(maps.Keys(sums)) {
		if sums[owner] != (auth.Use{}) && limitsApply(owner) {
			b.changes.Use = append(b.changes.Use, store.UseChange{Token: owner, Add: sums[owner]})
		}
	}
}

// checkQuota returns CodeQuotaExceeded if the owner has no quota left for add.
func (b *batch) checkQuota(owner string, add auth.Use) error {
	row, err := b.quotaRow(owner)
	if row == nil || err != nil {
		return err
	}
	return row.Quotas.WithDefaults(b.c.options.Quotas).CheckUse(owner, row.Used.Plus(b.useChanges()[owner]), add)
}

// checkProjectQuota is checkQuota for what a caller writes to a project's log. It counts for the
// project's owner: the bytes, and the thread if by creates it, for which by needs access.
func (b *batch) checkProjectQuota(p *project.State, by *auth.Token, bytes int) error {
	owner, add := p.Thread.Owner, auth.Use{Bytes: int64(bytes)}
	if p.Thread.CreatedAt.IsZero() {
		owner, add.Threads = by.Name, 1
		squats, err := b.inForeignNamespace(p.Thread, by)
		switch {
		case err != nil:
			return err
		case squats:
			return p.AccessError()
		}
	}
	return b.checkQuota(owner, add)
}

// checkSubmitQuota is checkQuota for a submit, which counts for the owner of its thread. A repeat
// of a known key adds nothing.
func (b *batch) checkSubmitQuota(in *thread.Submit) error {
	t := b.rows.thread(in.Thread)
	if t.Keys.Has(in.Key) {
		return nil
	}
	owner, add := t.Owner, auth.Use{Bytes: int64(in.Size())}
	if t.CreatedAt.IsZero() {
		owner, add.Threads = in.Owner, 1
	}
	return b.checkQuota(owner, add)
}
