package proc

import (
	"os"
	"runtime"
)

// Kind is the mechanism that hides files from an isolated child.
type Kind string

// The kinds, strongest first. [Probe] finds the strongest that this machine supports.
const (
	// KindNamespace gives the child mount and pid namespaces of its own. Hidden
	// files do not exist there, the child neither sees nor signals other
	// processes, and all its processes end with the first one
	// (user_namespaces(7), pid_namespaces(7)).
	KindNamespace Kind = "namespace"
	// KindLandlock makes the kernel refuse to open hidden files, to trace
	// processes outside the sandbox and, since Linux 6.12, to signal them (landlock(7)).
	KindLandlock Kind = "landlock"
	// KindNone hides nothing.
	KindNone Kind = "none"
)

// Isolation describes a child's sandbox. On Linux the child's parent is then a
// shim: this program, executed again. The shim sets the sandbox up and adopts the
// child's orphans, so they are found even if they cleared their environment and
// began a new session. Other systems do not support isolation.
type Isolation struct {
	Kind Kind `json:"kind"`
	// Hide lists files and folders to hide, as absolute paths. Symbolic links are followed at each start of a child,
	// because a secret may have been replaced. Missing paths are ignored.
	Hide []string `json:"hide,omitempty"`
	// Show lists regular files below Hide that the child may read.
	Show []string `json:"show,omitempty"`
	// Keep lists folders below Hide that stay accessible, such as the child's
	// working directory.
	Keep []string `json:"keep,omitempty"`
	// User is the user that the child runs as. If it is nil, the child runs as the user of this process.
	User *User `json:"user,omitempty"`

	Resources Resources `json:"resources"`
	// Cgroup limits the processes of the child, for root, on which setrlimit(2) has no effect. nil means that no
	// cgroup is used.
	Cgroup *Cgroup `json:"-"`
}

// Ineffective returns the limits that this system would not enforce for a child, by the names of their
// settings, and why.
func (i Isolation) Ineffective() (limits []string, why string) {
	r, root := i.Resources, os.Geteuid() == 0 && i.User == nil
	switch {
	case runtime.GOOS != "linux":
		for _, l := range []struct {
			name string
			set  bool
		}{{"max_processes", r.Processes > 0}, {"max_open_files", r.OpenFiles > 0}, {"max_file_size", r.FileSize > 0}} {
			if l.set {
				limits = append(limits, l.name)
			}
		}
		return limits, "they need Linux"
	case root && r.Processes > 0 && i.Cgroup == nil: // RLIMIT_NPROC, see setrlimit(2); a user namespace changes nothing
		return []string{"max_processes"},
			"Linux does not limit the processes of root; set user, or Delegate=pids in the unit of the server"
	}
	return nil, ""
}

// User is a system user with all of its groups.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

// Resources are setrlimit(2) limits, set as both soft and hard limit. 0 inherits
// the limit of this process. An isolated child never dumps core.
type Resources struct {
	Processes uint64 `json:"processes,omitempty"` // most processes of the child's user together; does not limit root
	OpenFiles uint64 `json:"open_files,omitempty"`
	FileSize  uint64 `json:"file_size,omitempty"` // bytes of one file
}
