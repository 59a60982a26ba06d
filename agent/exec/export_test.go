package exec

import (
	"time"

	"mailroom"
)

// SetLingerTimeout changes how long a program may keep running after its turn.
func SetLingerTimeout(a mailroom.Agent, d time.Duration) { a.(*programAgent).lingerTimeout = d }

// SteerInterval is the time between two looks for steered messages.
const SteerInterval = steerInterval

// Continued begins the transcript that a new session gets.
const Continued = continued
