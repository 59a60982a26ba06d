package proc

// Kind is the mechanism that keeps a child away from the files that its
// Isolation hides.
type Kind string

// The kinds, the strongest first. Which of them a machine has, [Probe] tells.
const (
	// KindNamespace gives the child its own mounts, in which the hidden files are
	// not there, and its own processes: it sees and signals no others, and all
	// of them end with the first (user_namespaces(7), pid_namespaces(7)).
	KindNamespace Kind = "namespace"
	// KindLandlock has the kernel refuse to open the hidden files, to trace
	// processes outside, and, since Linux 6.12, to signal them (landlock(7)).
	KindLandlock Kind = "landlock"
	// KindNone hides nothing.
	KindNone Kind = "none"
)

// Isolation says how a child is kept apart. On Linux such a child has a shim as
// its parent: this program, executed again, which prepares the isolation and
// adopts the orphans of the child, so that they are found whatever they did to
// their environment and session. On other systems it is not supported.
type Isolation struct {
	Kind Kind `json:"kind"`
	// Hide are files and folders, absolute and without links. One that does
	// not exist is left out.
	Hide []string `json:"hide,omitempty"`
	// Show are regular files below Hide that the child may read.
	Show []string `json:"show,omitempty"`
	// Keep are folders below Hide that stay as they are, such as the child's
	// working directory.
	Keep []string `json:"keep,omitempty"`
	// User is who the child runs as; nil is the user of this process.
	User *User `json:"user,omitempty"`

	Resources Resources `json:"resources"`
}

// User is a user of the system with all of its groups.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

// Resources are limits of setrlimit(2), soft and hard. 0 is what this process
// has. Isolated children leave no core.
type Resources struct {
	Processes uint64 `json:"processes,omitempty"` // of the child's user
	OpenFiles uint64 `json:"open_files,omitempty"`
	FileSize  uint64 `json:"file_size,omitempty"` // bytes of one file
}
