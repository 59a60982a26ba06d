package thread

import (
	"time"
)

// Limits of the transitions. Sizes are in bytes.
const (
	maxCollected = 4 << 20 // entries collected into one run; they hold each text twice
	// MaxSteers bounds the messages that are steered into a run and not covered by a step. They are part
	// of its row, which is rewritten with each of them.
	MaxSteers      = 200
	MaxSteersSize  = 1 << 20  // options and metadata of the runs that unread steers become
	MaxTickets     = 10_000   // of one run, whatever their state: each transition of its thread loads them
	MaxTicketsSize = 16 << 20 // their questions
	maxErrorLen    = 4096

	// What an item of a list costs besides its bytes, and a thread that a batch loads. The sizes of
	// operations bound a batch.
	itemSize   = 256
	partSize   = 64
	threadSize = 2 << 10

	// longNamed is the least delay that only a provider names, and maxNamed how long a run may wait for such times.
	longNamed = time.Hour
	maxNamed  = 45 * 24 * time.Hour
)
