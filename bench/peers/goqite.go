package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"maragu.dev/goqite"
	_ "modernc.org/sqlite" // the driver "sqlite", the one that Mailroom uses
)

// sqliteDB opens a SQLite file for the two peers that use one: WAL, each commit synced,
// and one connection, because SQLite has only one writer.
func sqliteDB(dir string) (*sql.DB, error) {
	path := filepath.Join(dir, "peer.db")
	db, err := sql.Open("sqlite",
		"file:"+path+
			"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// goqitePeer is goqite on SQLite. Its receivers loop over Receive and Delete, as its own
// runner does, but do not extend timeouts.
type goqitePeer struct {
	db        *sql.DB
	queue     *goqite.Queue
	stop      context.CancelFunc
	receivers sync.WaitGroup

	mu     sync.Mutex
	failed error // owned by mu: why a receiver ended
}

const (
	goqiteReceivers = 8
	goqitePoll      = time.Millisecond
)

func (*goqitePeer) settings() string {
	return fmt.Sprintf(
		"SQLite WAL, synchronous=FULL, one connection (as it advises); %d receivers that poll each %s when there is nothing",
		goqiteReceivers, goqitePoll)
}

// goqiteSchema reads the schema of goqite's table from its module.
func goqiteSchema(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "maragu.dev/goqite").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of goqite (run this in bench/peers, with go in PATH): %w", err)
	}
	schema, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema_sqlite.sql"))
	if err != nil {
		return "", fmt.Errorf("read the schema of goqite: %w", err)
	}
	return string(schema), nil
}

func (p *goqitePeer) open(ctx context.Context, dir string, _ int, h observer) (err error) {
	if p.db, err = sqliteDB(dir); err != nil {
		return err
	}
	schema, err := goqiteSchema(ctx)
	if err != nil {
		return err
	}
	if _, err := p.db.ExecContext(ctx, schema); err != nil {
		return err
	}
	p.queue = goqite.New(goqite.NewOpts{DB: p.db, Name: "work", Timeout: time.Minute})
	ctx, p.stop = context.WithCancel(ctx)
	for range goqiteReceivers {
		p.receivers.Go(func() {
			if err := p.receive(ctx, h); ctx.Err() == nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.failed = errors.Join(p.failed, err)
			}
		})
	}
	return nil
}

// receive handles messages until an error, such as the end of ctx.
func (p *goqitePeer) receive(ctx context.Context, h observer) error {
	for {
		m, err := p.queue.ReceiveAndWait(ctx, goqitePoll)
		if err != nil {
			return err
		}
		var w work
		if err := json.Unmarshal(m.Body, &w); err != nil {
			return err
		}
		h.started(w.Number)
		if err := p.queue.Delete(ctx, m.ID); err != nil {
			return err
		}
		h.done(w.Number)
	}
}

func (p *goqitePeer) submit(ctx context.Context, w work) error {
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return p.queue.Send(ctx, goqite.Message{Body: body})
}

func (p *goqitePeer) recorded(ctx context.Context) (int64, error) {
	left := 0
	if err := p.db.QueryRowContext(ctx, "select count(*) from goqite").Scan(&left); err != nil {
		return 0, err
	}
	if left > 0 {
		return 0, fmt.Errorf("%d messages remain", left)
	}
	return -1, nil // goqite deletes completed messages
}

func (p *goqitePeer) close() error {
	if p.db == nil {
		return nil
	}
	if p.stop != nil {
		p.stop()
	}
	p.receivers.Wait()
	return errors.Join(p.failed, p.db.Close())
}
