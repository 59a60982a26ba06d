package exec

import (
	"time"

	"mailroom"
)

// SetFarewell changes how long a program may take to end after its turn.
func SetFarewell(a mailroom.Agent, d time.Duration) { a.(*programAgent).farewell = d }
