package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"mailroom"
	"mailroom/app/datadir"
	"mailroom/internal/check"
	"mailroom/store/postgres"
)

const (
	// maxSharedFile is the size of the largest file that is fetched, in bytes. It is the largest value that max_file
	// can have.
	maxSharedFile = 1 << 30
	// outageLimit bounds the wait for a database that does not answer. A server that has no database
	// usually loses its leases earlier, which cancels the call.
	outageLimit = time.Minute
	// firstOutagePause and maxOutagePause are the first and the longest pause between two calls of the database.
	firstOutagePause, maxOutagePause = 50 * time.Millisecond, time.Second
)

// sharedFiles stores attachments so that the agents of all servers on a database can read them. The
// bytes are in the database, and in the folder of each server that has used them.
//
// The URI of a file comes from a message and is not trusted. The ledger accepts the URI of a stored file only from
// the channel that received the file, and in older messages the URI has the hash of the content, which a stranger
// does not know. Only stored names can be fetched, so one file cannot fill the disk under many names.
type sharedFiles struct {
	folder   datadir.Files
	database *postgres.Files
	log      *slog.Logger
}

// Save implements [chat.FileStore]. It writes the whole file to the folder before it sends the first byte to the
// database, so that no transaction waits for a slow platform.
func (f *sharedFiles) Save(ctx context.Context, name string, r io.Reader) (uri string, err error) {
	stored, err := f.folder.Add(ctx, name, r)
	if err != nil {
		return "", err
	}
	if err := f.retry(ctx, func() error { return f.upload(ctx, stored) }); err != nil {
		f.log.Warn("file of a message not stored in the database", "file", stored, "error", err)
		return "", fmt.Errorf("store a file for all servers: %w", err)
	}
	return check.FileScheme + stored, nil
}

func (f *sharedFiles) upload(ctx context.Context, stored string) (err error) {
	path, _ := f.folder.Path(stored)
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return f.database.Save(ctx, stored, content)
}

// Path implements [exec.FileSource].
func (f *sharedFiles) Path(uri string) (path string, ok bool) {
	stored, ok := strings.CutPrefix(uri, check.FileScheme)
	if !ok {
		return "", false
	}
	return f.folder.Path(stored)
}

// Fetch implements [exec.FileSource].
func (f *sharedFiles) Fetch(ctx context.Context, uri string) error {
	if _, ok := f.Path(uri); !ok {
		return mailroom.Errorf(mailroom.CodeInvalid, "its address is invalid")
	}
	stored := strings.TrimPrefix(uri, check.FileScheme)
	err := f.retry(ctx, func() error { return f.download(ctx, stored) })
	if ctx.Err() != nil {
		return err
	}
	switch mailroom.CodeOf(err) {
	case "":
		return nil
	case mailroom.CodeNotFound:
		return mailroom.Errorf(mailroom.CodeNotFound, "it has expired, or was never stored")
	case mailroom.CodeUnavailable:
		f.log.Warn("file of a message not fetched: the database does not answer; the run is retried",
			"file", stored, "error", err)
		return err
	}
	f.log.Warn("file of a message not fetched", "file", stored, "error", err)
	why := "the server could not store its copy"
	switch {
	case errors.Is(err, datadir.ErrDamaged):
		why = "the stored copy is damaged"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		why = "the disk of the server is full"
	}
	return &mailroom.Error{Code: mailroom.CodeInternal, Message: why, Cause: err}
}

// download copies a file from the database to the folder. The copy expires when the original does.
func (f *sharedFiles) download(ctx context.Context, stored string) (err error) {
	file, err := f.database.Open(ctx, stored)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if file.Size > maxSharedFile {
		return fmt.Errorf("it has %d bytes; the limit is %d", file.Size, maxSharedFile)
	}
	return f.folder.Fill(ctx, stored, file.SavedAt, file)
}

// retry calls work until it succeeds or fails with another error than Unavailable, for at most outageLimit and until
// ctx is done.
func (f *sharedFiles) retry(ctx context.Context, work func() error) error {
	end := time.Now().Add(outageLimit)
	for pause := firstOutagePause; ; pause = min(2*pause, maxOutagePause) {
		err := work()
		if mailroom.CodeOf(err) != mailroom.CodeUnavailable || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
