package ledger

import (
	"cmp"

	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// CheckMessage returns why a later submit of in would be refused for what it asks of its agent now: options that the
// agent does not take, or a model without a price in a run that a budget in dollars bounds. It writes nothing, and the
// submit is checked again, because the agent may change until then. An error has the code invalid and names the field
// options.
//
// rd is a snapshot of a ledger; other snapshots do not know what agents take.
func CheckMessage(rd store.Reader, in *thread.Submit) error {
	of, ok := rd.(reader)
	if !ok || len(in.Options) == 0 {
		return nil
	}
	agent := cmp.Or(reserved.Agent(in.Thread), in.Agent)
	if agent == "" && in.Thread != "" {
		rows, err := rd.Threads(store.ThreadQuery{IDs: []string{in.Thread}})
		if err != nil {
			return err
		}
		for _, t := range rows {
			agent = t.Agent
		}
	}
	agent = cmp.Or(agent, of.options.DefaultAgent)
	err := of.options.CheckOptions(agent, in.Options)
	if b := of.options.Budgets.ofRun(agent, in.Owner); err == nil && !b.IsZero() {
		err = of.options.CheckBudget(agent, in.Options, b)
	}
	if err != nil {
		return check.Invalid("options", err.Error(), "")
	}
	return nil
}
