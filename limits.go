package mailroom

import "time"

// Limits of the system. Sizes are bytes.
const (
	MaxThreadID   = 200  // characters
	MaxSubmitKey  = 200  // characters
	MaxMessages   = 100  // in one submit
	MaxParts      = 1000 // of one message
	MaxText       = 1 << 20
	MaxURI        = 8192    // characters, of a part
	MaxLabel      = 1000    // characters of a name that is shown: of a file, a step, an effect
	MaxPage       = 4 << 20 // bytes of one page of a list, unless its first item is larger
	MaxOptions    = 64 << 10
	MaxMetadata   = 16 << 10
	MaxCheckpoint = 256 << 10
	MaxAgentEntry = 256 << 10
	MaxSends      = 100 // in one step
	MaxHops       = 16  // threads that a run was sent through
	MaxState      = 16 << 10
	MaxPosition   = 1 << 20 // of a channel's cursor
	MaxEffect     = 1 << 20 // of a remembered value
	MaxQueued     = 1000    // runs in one thread's queue, by default
	MaxCollected  = 4 << 20 // of the entries that join a run, which a text is in twice
	MaxSteers     = 200     // messages handed to a run that no step covers yet
	MaxSteersSize = 1 << 20 // options and labels of the runs that they become

	DefaultPriority = 128
	DefaultAttempts = 5
	MaxCrashes      = 3  // in a row without progress: a dead letter
	MaxLost         = 20 // claims in all: a dead letter

	retryBase   = 250 * time.Millisecond
	retryCap    = 30 * time.Second
	outageCap   = 5 * time.Minute
	GiveUpAfter = 24 * time.Hour // after the first of an outage's attempts, as long as it is tried
)
