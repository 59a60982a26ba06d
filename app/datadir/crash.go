package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const (
	// crashFile receives the crash report of the running server. A server that stops removes it, unless it holds a report.
	crashFile = "crash.txt"
	// crashReportName is the file name of an archived report, with the time of the crash.
	crashReportName = "crash-%s.txt"
	// maxCrashReports is the number of archived reports.
	maxCrashReports = 3
	// maxCrashReportSize limits the size of a report, in bytes.
	maxCrashReportSize = 256 << 10
)

// CrashReport reads the report of the folder's last server, at most 256 KiB. It is empty if that server did not crash.
// The result does not change until KeepCrash is called.
func (h *Lock) CrashReport() (report []byte, err error) {
	f, err := os.Open(h.Dir.path(crashFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		report, err = io.ReadAll(io.LimitReader(f, maxCrashReportSize))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("read the crash report of the last server: %w", err)
	}
	return report, nil
}

// KeepCrash archives the report of the last server under its own name, truncated to 256 KiB, and removes all but the
// last three reports. It returns the report's path.
func (h *Lock) KeepCrash() (path string, err error) {
	path, err = h.keepCrash()
	if err != nil {
		return "", fmt.Errorf("archive the crash report of the last server: %w", err)
	}
	return path, nil
}

func (h *Lock) keepCrash() (string, error) {
	from := h.Dir.path(crashFile)
	info, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	if info.Size() > maxCrashReportSize {
		if err := os.Truncate(from, maxCrashReportSize); err != nil {
			return "", err
		}
	}
	path := h.Dir.path(fmt.Sprintf(crashReportName, info.ModTime().UTC().Format("20060102T150405.000000000Z")))
	if err := os.Rename(from, path); err != nil {
		return "", err
	}
	kept, err := filepath.Glob(h.Dir.path(fmt.Sprintf(crashReportName, "*")))
	if err != nil {
		return "", err
	}
	slices.Sort(kept)
	for _, old := range kept[:max(0, len(kept)-maxCrashReports)] {
		if err := os.Remove(old); err != nil {
			return "", err
		}
	}
	return path, nil
}

// CrashOutput opens the file for the crash report of this process, readable only by its owner. Call KeepCrash first if
// the last server crashed.
func (h *Lock) CrashOutput() (*os.File, error) {
	return os.OpenFile(h.Dir.path(crashFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// removeEmptyCrashReport removes the file for the crash report of this process. A report of the last server, which this
// one did not archive, stays for the next start.
func (h *Lock) removeEmptyCrashReport() error {
	info, err := os.Stat(h.Dir.path(crashFile))
	if err == nil && info.Size() == 0 {
		err = os.Remove(h.Dir.path(crashFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the empty crash report: %w", err)
	}
	return nil
}
