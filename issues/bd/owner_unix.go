//go:build unix

package bd

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// ownerOf returns the user id of a file's owner.
func ownerOf(_ string, info os.FileInfo) (id string, ok bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	return strconv.Itoa(int(sys.Uid)), true
}

// isUser reports whether an owner is this user.
func isUser(id string) bool { return id == strconv.Itoa(os.Geteuid()) }

// isAdministrator reports whether an owner is the system's administrator.
func isAdministrator(id string) bool { return id == "0" }

// createPlain creates or empties a file to write to. The error is errLink if it is a symbolic link.
func createPlain(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, syscall.ELOOP) {
		return nil, errLink
	}
	return file, err
}

// openFolder opens a folder, and nothing else: it follows no link and does not wait for a pipe.
func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}
