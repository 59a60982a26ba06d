package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/doctor"
	"mailroom/internal/lazyregexp"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/store/transfer"
)

// place is a store that a flag of the copy command names.
type place struct {
	name   string
	dir    datadir.Dir    // data folder of a store in a file
	config *config.Config // configuration of a store in a database; nil: the store is a file
}

// connectionString matches a URL of PostgreSQL and key=value pairs, which no folder is likely to be.
var connectionString = lazyregexp.New(`^(postgres(ql)?://|[a-z_]+=)`)

// findPlace returns the store that text names. flag is the name of the flag, for errors.
func findPlace(flag, text string) (*place, error) {
	if text == "" {
		return nil, command.Errorf(command.ExitUsage, "name a data folder or the URL of a PostgreSQL database",
			"--%s is missing", flag)
	}
	p, url := &place{}, ""
	if connectionString().MatchString(text) {
		url = text
	} else {
		abs, err := filepath.Abs(text)
		if err != nil {
			return nil, command.Errorf(command.ExitUsage, "", "--%s: %w", flag, err)
		}
		if real, err := filepath.EvalSymlinks(abs); err == nil { // a new folder does not exist
			abs = real
		}
		p.dir = datadir.Dir(abs)
	}
	c, err := selectStore(nil, p.dir, "", url)
	if err != nil {
		return nil, err
	}
	if c.Store.Kind != config.StorePostgres {
		p.name = p.dir.Database()
		return p, nil
	}
	p.config = c
	if p.name, err = postgresOptions(c).Place(); err != nil {
		return nil, command.Errorf(command.ExitUsage, "", "--%s: %w", flag, err)
	}
	return p, nil
}

// copyIdle is how long a transaction of a copy may wait for the other store.
const copyIdle = time.Minute

func (p *place) options() postgres.Options {
	o := postgresOptions(p.config)
	o.Node, o.Readers, o.IdleInTransaction = "copy", 2, copyIdle
	return o
}

// openError is an error before the first row was copied. Its place is the store with the error.
type openError struct {
	place *place
	error
}

func (e *openError) Unwrap() error { return e.error }

// source is a store that is copied. No server writes it during the copy.
type source struct {
	viewer transfer.Viewer
	locked bool // no server can use the store until close
	check  func(context.Context, *diagnosis) error
	close  func() error
}

func (p *place) openSource(ctx context.Context) (*source, error) {
	if p.config == nil {
		return p.openSourceFile(ctx)
	}
	o := p.options()
	o.MustExist = true
	s, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, &openError{p, err}
	}
	return &source{viewer: s, check: checker(s), close: s.Close}, nil
}

func (p *place) openSourceFile(ctx context.Context) (_ *source, err error) {
	if _, err := os.Stat(p.dir.Database()); errors.Is(err, fs.ErrNotExist) { // Acquire would create the folder
		return nil, &openError{p, fmt.Errorf("%s does not exist: %w", p.dir.Database(), sqlite.ErrNoStore)}
	}
	held, err := p.dir.Acquire(ctx)
	if err != nil {
		return nil, &openError{p, err}
	}
	file, err := sqlite.OpenFile(ctx, p.dir.Database())
	if err != nil {
		return nil, errors.Join(&openError{p, err}, held.Release())
	}
	return &source{
		viewer: file, locked: true,
		check: func(ctx context.Context, d *diagnosis) error {
			if err := checkFile(ctx, file, d); err != nil {
				return err
			}
			return findLoss(ctx, file, d)
		},
		close: func() error { return errors.Join(file.Close(), held.Release()) },
	}, nil
}

// checker returns a function that runs the doctor on a store.
func checker(s doctor.Viewer) func(context.Context, *diagnosis) error {
	return func(ctx context.Context, d *diagnosis) (err error) {
		d.Report, err = doctor.Check(ctx, s)
		return err
	}
}

// target is an empty store that receives the rows. No server starts on it until finish.
type target struct {
	store  store.Store
	check  func(context.Context, *diagnosis) error // ends the use of store
	finish func(context.Context) error             // makes the store usable; called after check
	close  func() error
}

func (p *place) openTarget(ctx context.Context) (*target, error) {
	if p.config == nil {
		return p.openTargetFile(ctx)
	}
	c, err := postgres.OpenCopy(ctx, p.options())
	if err != nil {
		return nil, &openError{p, err}
	}
	return &target{store: c.Store, check: checker(c.Store), finish: c.Finish, close: c.Store.Close}, nil
}

func (p *place) openTargetFile(ctx context.Context) (_ *target, err error) {
	held, err := p.dir.Acquire(ctx)
	if err != nil {
		return nil, &openError{p, err}
	}
	path, err := held.PrepareCopy()
	if err != nil {
		return nil, errors.Join(&openError{p, err}, held.Release())
	}
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(&openError{p, err}, held.Release())
	}
	commits := int64(0)
	return &target{
		store: s,
		check: func(ctx context.Context, d *diagnosis) error {
			if err := s.Close(); err != nil { // Close empties the WAL and syncs the file
				return err
			}
			file, err := sqlite.OpenFile(ctx, path)
			if err != nil {
				return err
			}
			if err = checkFile(ctx, file, d); err == nil {
				commits, _, err = file.Commits(ctx)
			}
			return errors.Join(err, file.Close())
		},
		finish: func(context.Context) error {
			return held.FinishCopy(func(database string) error {
				return sqlite.WriteRevision(database, sqlite.Revision{Commits: commits})
			})
		},
		close: func() error { return errors.Join(s.Close(), held.Release()) },
	}, nil
}
