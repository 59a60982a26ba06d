package bd

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownerOf returns the security identifier of a file's owner.
func ownerOf(path string, _ os.FileInfo) (id string, ok bool) {
	of, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return "", false
	}
	owner, _, err := of.Owner()
	if err != nil {
		return "", false
	}
	return owner.String(), true
}

// isUser reports whether an owner is this user.
func isUser(id string) bool {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	return err == nil && id == user.User.Sid.String()
}

// isAdministrator reports whether an owner is the system or the group of administrators, who owns what an administrator
// creates.
func isAdministrator(id string) bool { return id == "S-1-5-18" || id == "S-1-5-32-544" }

// createPlain creates or empties a file to write to. The error is errLink if it is a symbolic link.
func createPlain(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, errLink
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
}

// openFolder opens a folder, and nothing else.
func openFolder(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, syscall.ENOTDIR
	}
	return os.Open(path)
}
