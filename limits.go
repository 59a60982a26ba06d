package mailroom

import "time"

// Limits of the system. Sizes are in bytes.
const (
	MaxThreadID   = 200  // characters
	MaxSubmitKey  = 200  // characters
	MaxKey        = 200  // characters of a concurrency key
	MaxMessages   = 100  // in one submit
	MaxParts      = 1000 // of one message
	MaxText       = 1 << 20
	MaxURI        = 8192    // characters of a part's URI
	MaxLabel      = 1000    // characters of a displayed name: of a file, a step, an effect
	MaxPage       = 4 << 20 // one page of a list, unless its first item is larger
	MaxOptions    = 64 << 10
	MaxMetadata   = 16 << 10
	MaxCheckpoint = 256 << 10
	MaxAgentEntry = 256 << 10
	MaxSends      = 100 // in one step
	MaxHops       = 16  // threads that a run was sent through, one after the other
	MaxState      = 16 << 10
	MaxBlob       = 16 << 20
	MaxBlobs      = 64 << 20 // of an agent in a thread, with 512 for each blob
	MaxBlobName   = 256
	MaxPosition   = 1 << 20          // of a channel's cursor
	MaxEffect     = 1 << 20          // stored value of an effect
	MaxQueued     = 1000             // runs in one thread's queue, by default
	MaxAnswer     = 64 << 10         // of a ticket
	MaxWaitsOn    = 200              // what a silent agent says that it waits for
	MaxJoin       = 10 * time.Second // that messages delay their run, to be joined by more of their sender

	DefaultPriority = 128
	DefaultAttempts = 5
	MaxCrashes      = 3  // consecutive crashes without progress that make a dead letter
	MaxLost         = 20 // lost claims in total that make a dead letter
)
