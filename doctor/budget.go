package doctor

import (
	"mailroom"
	"mailroom/store"
)

// budget checks that what a run has lent is what the open runs that it sent have of its budget, and that only an open
// run has a part of another one's.
func (p *checker) budget(r *mailroom.Run) error {
	b := r.Budget
	if b == nil {
		return nil
	}
	if b.Lender != "" && r.Status.Finished() {
		p.badRun(Budget, r.ID, "run %s has ended, and has %s of the budget of run %s", r.ID, b.Part, b.Lender)
	}
	if b.Lent == (mailroom.Amounts{}) && b.Lender == "" {
		return nil
	}
	sum := mailroom.Amounts{}
	for q := (store.RunQuery{Parent: r.ID, Limit: batch}); ; {
		rows, err := p.r.Runs(q)
		if err != nil {
			return err
		}
		for _, child := range rows {
			q.From = child.Key
			if c := child.Budget; c != nil && c.Lender == r.ID {
				sum = sum.Plus(c.Part)
			}
		}
		if len(rows) < batch {
			break
		}
	}
	if sum != b.Lent {
		p.badRun(Budget, r.ID, "run %s has lent %s of its budget, the open runs that it sent have %s", r.ID, b.Lent, sum)
	}
	if b.Lender == "" {
		return nil
	}
	found, err := p.r.Runs(store.RunQuery{IDs: []string{b.Lender}})
	if err != nil || len(found) == 0 || found[0].Budget == nil { // its thread may be deleted
		return err
	}
	if rest := found[0].Budget.Lent.Minus(b.Part); rest != rest.Positive() {
		p.badRun(Budget, r.ID, "run %s has %s of the budget of run %s, which has lent %s", r.ID, b.Part, b.Lender,
			found[0].Budget.Lent)
	}
	return nil
}
