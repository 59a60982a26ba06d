package mailroom

import "time"

// ThreadBudget is what the runs of a thread may use in a period, and what they have used of it. What its runs send to
// other threads counts there.
type ThreadBudget struct {
	Period string // day, month, or life, which lasts as long as the thread
	Limit  Budget // without Until
	Begin  time.Time
	End    time.Time // of the period to which Used and Raised belong
	Used   Amounts
	Raised Amounts `json:",omitzero"`  // what people have added for the period
	Low    bool    `json:",omitempty"` // people were told that it is low
	Asked  Amounts `json:",omitzero"`  // the bounds about which people were asked last; zero: they were not
}
