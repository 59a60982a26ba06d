package channel

// Description says in a condition's words what it means and what an operator does about it.
type Description struct {
	Condition Condition
	Meaning   string
	Action    string
}

// Descriptions returns the table of all conditions, in the order in which a channel passes through them.
func Descriptions() []Description {
	return []Description{
		{ConditionStarting, "no attempt has succeeded or failed yet", "wait"},
		{ConditionConnected, "the last answer of the platform is fresh", "nothing"},
		{ConditionSilent, "the platform stopped answering; it reconnects", "nothing"},
		{ConditionQueued, "an attempt failed; the next one is scheduled", "wait, or read LAST ERROR"},
		{ConditionParked, "many attempts failed; it retries every probe_every", "fix LAST ERROR, then resume"},
		{ConditionGaveUp, "give_up_after attempts failed; no retry", "fix LAST ERROR, then resume"},
		{ConditionFailed, "refused (bad token); it retries every probe_every", "fix LAST ERROR, then resume"},
		{ConditionStandby, "another server runs it, this one if it fails", "nothing"},
	}
}
