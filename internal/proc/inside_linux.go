package proc

import (
	"fmt"
	"os"
	"strings"
)

// Inside returns the ids of the processes whose working folder is the folder at an absolute path without links, or is
// inside it. It sees only processes of users that this process may look at.
func Inside(folder string) ([]int, error) {
	all, err := processes(nil)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, p := range all {
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid))
		if err == nil && (dir == folder || strings.HasPrefix(dir, folder+"/")) {
			found = append(found, p.pid)
		}
	}
	return found, nil
}
