package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom"
	"mailroom/app/datadir"
	"mailroom/internal/check"
	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/store/postgres"
)

// fileServers are the files of two servers on one database. The second one is behind a proxy.
type fileServers struct {
	t             *testing.T
	schema        string
	first, second *sharedFiles
	network       *pgtest.Proxy
}

func newFileServers(t *testing.T) *fileServers {
	cluster := pgtest.Shared(t)
	s := &fileServers{t: t, schema: cluster.Schema(t), network: pgtest.StartProxy(t, cluster)}
	st, err := postgres.Open(t.Context(), postgres.Options{
		URL: cluster.URL(), Schema: s.schema, AllowUnsafe: true,
		// On a busy machine a transaction is silent for seconds.
		IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	open := func(url string) *sharedFiles {
		f, err := postgres.NewFiles(postgres.Options{URL: url, Schema: s.schema})
		if err != nil {
			t.Fatal(err)
		}
		return &sharedFiles{folder: datadir.Dir(t.TempDir()).Files(), database: f,
			log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	}
	s.first, s.second = open(cluster.URL()), open(s.network.URL())
	return s
}

func (s *fileServers) save(content string) (uri string) {
	s.t.Helper()
	uri, err := s.first.Save(s.t.Context(), "Cat.PNG", strings.NewReader(content))
	if err != nil {
		s.t.Fatal(err)
	}
	return uri
}

// exec changes the tables of files.
func (s *fileServers) exec(text string, args ...any) {
	s.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.Shared(s.t).URL())
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = conn.Exec(ctx, "SET search_path = "+s.schema)
	if err == nil {
		_, err = conn.Exec(ctx, text, args...)
	}
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		s.t.Fatal(err)
	}
}

// wantFetched checks that the second server gets the content.
func (s *fileServers) wantFetched(uri, want string) {
	s.t.Helper()
	if err := s.second.Fetch(s.t.Context(), uri); err != nil {
		s.t.Error(err)
	}
	path, ok := s.second.Path(uri)
	if got, err := os.ReadFile(path); !ok || string(got) != want || err != nil {
		s.t.Errorf("file %s has content %q, %v, want %q", path, got, err, want)
	}
}

// wantRefused checks that the second server says why it has no file, and leaves none.
func (s *fileServers) wantRefused(uri, why string) {
	s.t.Helper()
	err := s.second.Fetch(s.t.Context(), uri)
	known, ok := errors.AsType[*mailroom.Error](err)
	if !ok || known.Message != why {
		s.t.Errorf("fetch %s: error %v, want %q", uri, err, why)
	}
	all, err := os.ReadDir(string(s.second.folder))
	if len(all) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("files %v, %v, want none", all, err)
	}
}

func TestAFileThatOneServerStoresIsFetchedByAnother(t *testing.T) {
	s := newFileServers(t)
	uri := s.save("a cat")
	name := strings.TrimPrefix(uri, "mailroom-file:")
	if local, ok := s.first.Path(uri); !ok || filepath.Ext(name) != ".png" || filepath.Base(local) != name {
		t.Errorf("URI %s has the path %s, want the file's name in both", uri, local)
	}
	if again := s.save("a cat"); again != uri {
		t.Errorf("the same content has the URIs %s and %s", uri, again)
	}
	s.exec("UPDATE file SET saved_at = saved_at - 3600000000")
	s.wantFetched(uri, "a cat")
	path, _ := s.second.Path(uri)
	if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) < time.Hour-time.Minute {
		t.Errorf("the copy has the time %v, %v; want that of the original", info.ModTime(), err)
	}
	if n, err := s.second.database.RemoveBefore(t.Context(), time.Now()); n != 1 || err != nil {
		t.Errorf("removed %d files, %v; want 1", n, err)
	}
	if err := os.RemoveAll(string(s.second.folder)); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(uri, "it has expired, or was never stored")
}

func TestAFileWhoseContentHasChangedIsNotFetched(t *testing.T) {
	s := newFileServers(t)
	uri := s.save("a cat")
	s.exec("UPDATE file_piece SET body = 'a dog'")
	s.wantRefused(uri, "the stored copy is damaged")
	s.exec("UPDATE file SET size = $1", maxSharedFile+1)
	s.wantRefused(uri, "the server could not store its copy")
}

// TestAUserCannotNameOtherFiles has URIs that a user may write into a message.
func TestAUserCannotNameOtherFiles(t *testing.T) {
	s := newFileServers(t)
	uri := s.save("a cat")
	hash := strings.TrimSuffix(strings.TrimPrefix(uri, "mailroom-file:"), ".png")
	for _, uri := range []string{
		"mailroom-file:", "mailroom-file:../token", "mailroom-file:" + hash[:63],
		"mailroom-file:" + strings.ToUpper(hash) + ".png",
		"mailroom-file:" + hash + ".", "mailroom-file:" + hash + "./x", "mailroom-file:" + hash + ".p%6eg",
		"mailroom-file://" + hash, "file:///etc/passwd", hash,
	} {
		if path, ok := s.second.Path(uri); ok {
			t.Errorf("%s has the path %s, want none", uri, path)
		}
		s.wantRefused(uri, "its address is invalid")
	}
	for _, end := range []string{"", ".sh"} { // the content under other names would use up the disk
		s.wantRefused("mailroom-file:"+hash+end, "it has expired, or was never stored")
	}
}

// TestAFetchWaitsForTheDatabase has a database that closes the first connection.
func TestAFetchWaitsForTheDatabase(t *testing.T) {
	s := newFileServers(t)
	uri := s.save("a cat")
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := filepath.Join(t.TempDir(), "database")
	point := func(url string) {
		if err := errors.Join(os.WriteFile(address+"~", []byte(url), 0o600), os.Rename(address+"~", address)); err != nil {
			t.Fatal(err)
		}
	}
	point(fmt.Sprintf("host=127.0.0.1 port=%d user=x", away.Addr().(*net.TCPAddr).Port))
	if s.second.database, err = postgres.NewFiles(postgres.Options{URLFile: address, Schema: s.schema}); err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { s.wantFetched(uri, "a cat") })
	conn, err := away.Accept()
	if err != nil {
		t.Fatal(err)
	}
	point(s.network.URL())
	if err := errors.Join(conn.Close(), away.Close()); err != nil {
		t.Error(err)
	}
	waiting.Wait()
}

func TestAFetchEndsWithItsAttempt(t *testing.T) {
	s := newFileServers(t)
	uri := s.save("a cat")
	s.network.SetLink(pgtest.Link{HoldRequests: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.second.Fetch(ctx, uri); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("error %v, want unavailable", err)
	}
	path, _ := s.second.Path(uri)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a cancelled fetch: %v", err)
	}
}

func TestTheJanitorRemovesOldFilesFromTheDatabase(t *testing.T) {
	s := newFileServers(t)
	old, young := s.save("old"), s.save("young")
	s.exec("UPDATE file SET saved_at = saved_at - 7200000000 WHERE name = $1", strings.TrimPrefix(old, check.FileScheme))
	l := ledger.New(memory.New(), ledger.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	parts.Go(func() {
		(&janitor{ledger: l, shared: s.first.database, retention: time.Hour, log: s.first.log}).cleanStore(ctx)
	})
	for gone := false; !gone; {
		file, err := s.first.database.Open(t.Context(), strings.TrimPrefix(old, check.FileScheme))
		switch {
		case err == nil:
			err = file.Close()
		case mailroom.CodeOf(err) == mailroom.CodeNotFound:
			gone, err = true, nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stop()
	parts.Wait()
	s.wantFetched(young, "young")
}
