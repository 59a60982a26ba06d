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

// threadUse is the part of its owner's quotas that a thread used when the batch locked it.
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
func (tx *transaction) quotaRow(owner string) (*auth.Token, error) {
	if !limitsApply(owner) {
		return nil, nil
	}
	return tx.rows.token(owner)
}

// limitsApply reports whether an owner can have quotas.
func limitsApply(owner string) bool { return owner != "" && owner != auth.Operator }

// useChanges returns the changes of this batch to the use of owners.
func (tx *transaction) useChanges() map[string]auth.Use {
	sums := maps.Clone(tx.changes.workers)
	for id, was := range tx.rows.before {
		if t := tx.rows.threads[id]; t.Changed() || tx.changes.dropped[id] {
			was.use.add(sums, -1)
		}
	}
	for _, t := range tx.rows.threads {
		if t.Changed() {
			now := useOfThread(&t.Thread, true)
			now.add(sums, 1)
		}
	}
	return sums
}

// changedUse returns the changed use of owners, which is written in the transaction of the rows that it sums up.
func (tx *transaction) changedUse() (all []store.UseChange) {
	sums := tx.useChanges()
	for _, owner := range slices.Sorted(maps.Keys(sums)) {
		if sums[owner] != (auth.Use{}) && limitsApply(owner) {
			all = append(all, store.UseChange{Token: owner, Add: sums[owner]})
		}
	}
	return all
}

// checkQuota returns CodeQuotaExceeded if the owner has no quota left for add.
func (tx *transaction) checkQuota(owner string, add auth.Use) error {
	row, err := tx.quotaRow(owner)
	if row == nil || err != nil {
		return err
	}
	return row.Quotas.WithDefaults(tx.options.Quotas).CheckUse(owner, row.Used.Plus(tx.useChanges()[owner]), add)
}

// checkProjectQuota is checkQuota for what a caller writes to a project's log. It counts for the
// project's owner: the bytes, and the thread if by creates it, for which by needs access.
func (tx *transaction) checkProjectQuota(p *project.State, by *auth.Token, bytes int) error {
	owner, add := p.Thread.Owner, auth.Use{Bytes: int64(bytes)}
	if p.Thread.CreatedAt.IsZero() {
		owner, add.Threads = by.Name, 1
		squats, err := tx.inForeignNamespace(p.Thread, by)
		switch {
		case err != nil:
			return err
		case squats:
			return p.AccessError()
		}
	}
	return tx.checkQuota(owner, add)
}

// checkSubmitQuota is checkQuota for a submit, which counts for the owner of its thread. A repeat
// of a known key adds nothing.
func (tx *transaction) checkSubmitQuota(in *thread.Submit) error {
	t := tx.rows.thread(in.Thread)
	if t.Keys.Has(in.Key) {
		return nil
	}
	owner, add := t.Owner, auth.Use{Bytes: int64(in.Size())}
	if t.CreatedAt.IsZero() {
		owner, add.Threads = in.Owner, 1
	}
	return tx.checkQuota(owner, add)
}
