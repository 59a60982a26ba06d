package node

import (
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/app/command"
)

// The kernel lets programs of the same user read the memory, the environment and the descriptors of a process that may
// dump core. A test that runs as root could not see the difference from outside, so this one asks the kernel.
func TestASecretOfTheServerIsInNoReachOfItsPrograms(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	inherited, err := unix.Dup(2) // as one that the program which started the server left open
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Close(inherited); err != nil {
			t.Error(err)
		}
	}()
	if err := hideSecrets(&command.Console{}, nil); err != nil {
		t.Fatal(err)
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		t.Errorf("other programs can read the memory of this process (%d, %v)", dumpable, err)
	}
	if flags, err := unix.FcntlInt(uintptr(inherited), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("programs inherit descriptor %d (%#x, %v)", inherited, flags, err)
	}
}
