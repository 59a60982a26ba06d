package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"mailroom"
)

// oldFile makes a database file with the tables of a version and some rows.
func oldFile(t *testing.T, version int64, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mail.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(packRows(), shareDue(), sumUse(), countRuns(), countInboxes()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if _, err := db.ExecContext(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func oldRun(id, key, firstSeq string) string {
	return `INSERT INTO run (id, thread, agent, agent_version, mode, priority, place, submit_key, parent, max_attempts,
		first_seq, status, stop, stop_by, held, attempt, failures, crashes, lost, outages, step, started, reason)
		VALUES ('` + id + `', 1, 'echo', '', 'queue', 1, 1, '` + key + `', '', 5, ` + firstSeq +
		`, 'completed', '', '', 0, 1, 0, 0, 0, 0, 0, 1, '')`
}

func TestRowsOfTheFirstVersionAreReadAndPurged(t *testing.T) {
	key := "INSERT INTO submit_key (thread, key, digest, result) VALUES (1, "
	s := openAt(t, oldFile(t, 1,
		`INSERT INTO thread (id, agent, owner, parent, current_run, round, due_agent, due_priority, due_alone,
			first_seq, last_seq, next_place) VALUES ('t', 'echo', 'me', '', '', 0, '', 0, 0, 1, 0, 4)`,
		oldRun("first", "a", "1"), oldRun("second", "b", "7"), oldRun("late", "c", "3"), oldRun("last", "d", "7"),
		key+`'a', '', '{"run":"first","seq":1,"disposition":"queued"}')`,
		key+`'b', '', '{"run":"second","seq":7,"disposition":"queued"}')`,
		key+`'c', '', '{"run":"first","seq":3,"disposition":"steered"}')`,
		key+`'e', '', '{"run":"second","seq":8,"disposition":"collected"}')`,
	), Options{})
	want := &mailroom.Run{
		Key: 1, Stored: mailroom.StatusCompleted, ID: "first", Thread: "t", Agent: "echo", Mode: mailroom.ModeQueue, Priority: 1, Place: 1, SubmitKey: "a",
		MaxAttempts: 5, FirstSeq: 1, Status: mailroom.StatusCompleted, Attempt: 1, Started: true,
	}
	runs, keys := left(t, s)
	if diff := cmp.Diff(want, runs[len(runs)-1]); diff != "" {
		t.Errorf("the first run (-want +got):\n%s", diff)
	}
	if want := []string{"a", "b", "c", "e"}; !slices.Equal(keys, want) {
		t.Errorf("keys: got %v, want %v", keys, want)
	}
	err := s.Update(t.Context(), func(tx mailroom.Tx) error {
		return tx.Write(&mailroom.Changes{DropEntries: []mailroom.Prefix{{Thread: "t", Seq: 5}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	runs, keys = left(t, s)
	if len(runs) != 2 || runs[0].ID != "last" || runs[1].ID != "second" {
		t.Errorf("runs after a purge below 5: got %d, want last and second", len(runs))
	}
	if want := []string{"b", "e"}; !slices.Equal(keys, want) {
		t.Errorf("keys after a purge below 5: got %v, want %v", keys, want)
	}
}

// left are the runs and the keys of thread t.
func left(t *testing.T, s *Store) (runs []*mailroom.Run, keys []string) {
	t.Helper()
	err := s.View(t.Context(), func(r mailroom.Reader) error {
		found, err := r.Runs(mailroom.RunQuery{Thread: "t"})
		if err != nil {
			return err
		}
		runs = found
		rows, err := r.Keys("t", []string{"a", "b", "c", "d", "e"})
		for _, k := range rows {
			keys = append(keys, k.Key)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs, keys
}

func TestRowsWithAColumnForEachFieldAreKept(t *testing.T) {
	s := openAt(t, oldFile(t, 3,
		`INSERT INTO thread (key, id, agent, owner, parent, metadata, current_run, worker, round, due_at, due_agent,
			due_priority, due_alone, held_at, first_seq, last_seq, next_place, created_at, updated_at, state, deliver_to,
			revision) VALUES (7, 't', 'echo', 'me', 'p', '{"a": 1}', 'r', 'w', 3, 1000000, 'other', 5, 1, 2000000, 2, 9, 4,
			3000000, 4000000, '{"echo":"{ \"n\": 1 }"}', 'chat', 11)`,
		`INSERT INTO run (key, id, thread, agent, agent_version, mode, priority, place, submit_key, parent, max_attempts,
			first_seq, status, stop, stop_by, held, not_before, available_at, attempt, failures, crashes, lost, outages,
			outage_since, step, started, reason, created_at, started_at, finished_at, origin, last_step, inputs, steers,
			error, metadata, reply, options, checkpoint, caller, lineage, wait, resumes, asked, usage, progress)
			VALUES (8, 'r', 7, 'echo', '1', 'queue', 6, 2, 'k', 'q', 5, 3, 'waiting', 'cancelled', 'me', 1, 1000000, 2000000,
			1, 2, 3, 4, 5, 3000000, 6, 1, 'superseded', 4000000, 5000000, 6000000, '{"via":"user","sender":"me"}',
			'{"attempt":1,"step":6,"digest":"d","seq":8}', '[{"message":"m","seq":3}]',
			'[{"message":"n","seq":5,"read":true,"own":{"ID":"o","Options":"{ }"}}]',
			'{"class":"transient","message":"busy"}', '{"k":"v"}', 'yes', '{"o": 1}', '{"c": 1}',
			'{"Thread":"x","Run":"y","Name":"z","Answer":"wait"}', '["x"]', '{"names":["z"],"any":true}', 1, 2,
			'{"input_tokens":3}', 'half')`,
		"UPDATE sqlite_sequence SET seq = 100", // newer rows were dropped
	), Options{})
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	reply := "yes"
	thread := &mailroom.Thread{
		Key: 7, Revision: 11, ID: "t", Agent: "echo", Owner: "me", Parent: "p", Metadata: []byte(`{"a": 1}`), Current: "r", Worker: "w",
		Round: 3, Due: mailroom.Due{At: at(1), Agent: "other", Priority: 5, LastAttempt: true}, HeldAt: at(2), FirstSeq: 2, LastSeq: 9,
		NextPlace: 4, CreatedAt: at(3), UpdatedAt: at(4), DeliverTo: "chat",
		State: map[string]json.RawMessage{"echo": json.RawMessage(`{ "n": 1 }`)},
	}
	run := &mailroom.Run{
		Key: 8, ID: "r", Thread: "t", Agent: "echo", AgentVersion: "1", Mode: mailroom.ModeQueue, Priority: 6, Place: 2,
		SubmitKey: "k", Parent: "q", MaxAttempts: 5, FirstSeq: 3, Status: mailroom.StatusWaiting, Stop: mailroom.ReasonCancelled, StopBy: "me",
		Scheduled: true, NotBefore: at(1), AvailableAt: at(2), Attempt: 1, Failures: 2, Crashes: 3, Lost: 4, Outages: 5,
		OutageSince: at(3), Step: 6, Started: true, Reason: mailroom.ReasonSuperseded, CreatedAt: at(4), StartedAt: at(5),
		FinishedAt: at(6), Origin: mailroom.Origin{Via: "user", Sender: "me"},
		LastStep: mailroom.StepMark{Attempt: 1, Step: 6, Digest: "d", Seq: 8},
		Inputs:   []mailroom.Input{{Message: "m", Seq: 3}},
		Steers: []mailroom.Steer{{
			Input: mailroom.Input{Message: "n", Seq: 5}, Read: true, Own: &mailroom.Run{ID: "o", Options: []byte("{ }")},
		}},
		Error: &mailroom.RunError{Class: mailroom.ClassTransient, Message: "busy"}, Metadata: map[string]string{"k": "v"}, Reply: &reply,
		Options: []byte(`{"o": 1}`), Checkpoint: []byte(`{"c": 1}`),
		Caller:  &mailroom.Caller{Thread: "x", Run: "y", Name: "z", Answer: mailroom.AnswerWait},
		Lineage: []string{"x"}, Wait: &mailroom.Wait{Names: []string{"z"}, Any: true}, Resumes: true, Asked: 2,
		Usage: mailroom.Usage{InputTokens: 3},
	}
	added := &mailroom.Thread{ID: "new"}
	err := s.Update(t.Context(), func(tx mailroom.Tx) error {
		_, threads, err := tx.Lock(nil, []string{"t"})
		if err != nil {
			return err
		}
		runs, err := tx.Runs(mailroom.RunQuery{Statuses: []mailroom.Status{mailroom.StatusWaiting}})
		if diff := cmp.Diff([]*mailroom.Thread{thread}, threads); diff != "" {
			t.Errorf("threads (-want +got):\n%s", diff)
		}
		run.Stored = run.Status
		if diff := cmp.Diff([]*mailroom.Run{run}, runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if err != nil {
			return err
		}
		return tx.Write(&mailroom.Changes{Threads: []*mailroom.Thread{added}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if added.Key != 101 {
		t.Errorf("key of the next thread: got %d, want 101", added.Key)
	}
}

func TestWorkersOfBeforeThereWereTokensAreTheServersOwn(t *testing.T) {
	s := openAt(t, oldFile(t, 4,
		`INSERT INTO worker (id, host, pid, local, agents, started_at, lease_until, dead)
			VALUES ('w', 'here', 7, 1, '["echo"]', 1000000, 2000000, 1)`,
	), Options{})
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	want := []*mailroom.Worker{{
		ID: "w", Host: "here", PID: 7, Local: true, Agents: []string{"echo"}, StartedAt: at(1), LeaseUntil: at(2), Dead: true,
	}}
	token := &mailroom.Token{Name: "ann", Sum: "sum", Scopes: []mailroom.Permission{mailroom.PermissionRead}, CreatedAt: at(3)}
	err := s.Update(t.Context(), func(tx mailroom.Tx) error {
		workers, err := tx.Workers()
		if diff := cmp.Diff(want, workers); diff != "" {
			t.Errorf("workers (-want +got):\n%s", diff)
		}
		if err != nil {
			return err
		}
		if none, err := tx.Tokens(); len(none) > 0 || err != nil {
			t.Errorf("tokens: got %v, %v, want none", none, err)
		}
		if err := tx.Write(&mailroom.Changes{Tokens: []*mailroom.Token{token}}); err != nil {
			return err
		}
		tokens, err := tx.Tokens()
		if diff := cmp.Diff([]*mailroom.Token{token}, tokens); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestThreadsAndTokensSayWhatTheyHadBefore(t *testing.T) {
	body := func(row mailroom.Thread) string { return fmt.Sprintf("x'%x'", pack(nil, &row, (*packer).thread)) }
	thread := "INSERT INTO thread (key, id, agent, body) VALUES "
	s := openAt(t, oldFile(t, useVersion-1,
		thread+"(1, 't', 'echo', "+body(mailroom.Thread{ID: "t", Owner: "ann", Agent: "echo", LastSeq: 3})+")",
		thread+"(2, 'empty', 'echo', "+body(mailroom.Thread{ID: "empty", Owner: "ann", Agent: "echo"})+")",
		thread+"(3, 'other', 'echo', "+body(mailroom.Thread{ID: "other", Owner: "bob", Agent: "echo"})+")",
		"INSERT INTO entry (thread, last_seq, first_seq, lines) VALUES (1, 2, 1, CAST('{\"ä\":1}'||char(10)||'{\"b\":2}' AS BLOB))",
		"INSERT INTO entry (thread, last_seq, first_seq, lines) VALUES (1, 3, 3, CAST('{}' AS BLOB))",
		"INSERT INTO token (name, sum, namespace) VALUES ('ann', '1', ''), ('bob', '2', ''), ('new', '3', '')",
		"INSERT INTO worker (id, host, pid, local, dead, owner) VALUES ('w', '', 1, 0, 0, 'bob'), ('x', '', 1, 0, 1, 'bob')",
	), Options{})
	const bytes = 8 + 7 + 2
	err := s.View(t.Context(), func(r mailroom.Reader) error {
		rows, err := r.Tokens()
		for i, want := range []mailroom.Use{{Threads: 2, Bytes: bytes}, {Threads: 1, Workers: 1}, {}} {
			if err == nil && rows[i].Used != want {
				t.Errorf("%s has %+v, want %+v", rows[i].Name, rows[i].Used, want)
			}
		}
		threads, err := r.Threads(mailroom.ThreadQuery{IDs: []string{"t"}})
		if err == nil && threads[0].Bytes != bytes {
			t.Errorf("the log has %d bytes, want %d", threads[0].Bytes, bytes)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunsAndThreadsOfBeforeAreCounted(t *testing.T) {
	thread := func(key int, row mailroom.Thread) string {
		return fmt.Sprintf("INSERT INTO thread (key, id, agent, body) VALUES (%d, '%s', 'echo', x'%x')", key, row.ID, pack(nil, &row, (*packer).thread))
	}
	run := func(key, of int, agent, status string) string {
		row := mailroom.Run{ID: fmt.Sprint("r", key), Agent: agent, Status: mailroom.Status(status)}
		return fmt.Sprintf("INSERT INTO run (key, id, thread, agent, status, first_seq, body) VALUES (%d, '%s', %d, '%s', '%s', 1, x'%x')",
			key, row.ID, of, agent, status, pack(nil, &row, (*packer).run))
	}
	s := openAt(t, oldFile(t, countVersion-1,
		thread(1, mailroom.Thread{ID: "t", Owner: "ann", DeliverTo: "chat"}), thread(2, mailroom.Thread{ID: "u", Owner: "bob"}),
		thread(3, mailroom.Thread{ID: "v", Owner: "ann"}),
		run(1, 1, "x", "completed"), run(2, 1, "x", "completed"), run(3, 1, "y", "failed"), run(4, 3, "x", "queued"), run(5, 2, "x", "completed"),
	), Options{})
	ann := "ann"
	err := s.View(t.Context(), func(r mailroom.Reader) error {
		all, err := r.Count(mailroom.CountQuery{})
		want := mailroom.Counts{Threads: 3, Runs: map[mailroom.Status]int{mailroom.StatusCompleted: 3, mailroom.StatusFailed: 1, mailroom.StatusQueued: 1}}
		if diff := cmp.Diff(want, all); diff != "" || err != nil {
			t.Errorf("all (-want +got): %v %s", err, diff)
		}
		hers, err := r.Count(mailroom.CountQuery{Owner: &ann, Agent: "x"})
		want = mailroom.Counts{Runs: map[mailroom.Status]int{mailroom.StatusCompleted: 2, mailroom.StatusQueued: 1}}
		if diff := cmp.Diff(want, hers); diff != "" || err != nil {
			t.Errorf("of ann and x (-want +got): %v %s", err, diff)
		}
		sources, err := r.Threads(mailroom.ThreadQuery{DeliverTo: "chat"})
		if len(sources) != 1 || sources[0].ID != "t" {
			t.Errorf("%d threads deliver to the chat, want t", len(sources))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestInboxesOfBeforeAreCounted(t *testing.T) {
	thread := func(key int, id string) string {
		row := mailroom.Thread{ID: id, Agent: "echo", Owner: "ann", Bytes: 7}
		return fmt.Sprintf("INSERT INTO thread (key, id, agent, body) VALUES (%d, '%s', 'echo', x'%x')", key, id, pack(nil, &row, (*packer).thread))
	}
	s := openAt(t, oldFile(t, inboxVersion-1,
		thread(1, "project:p"), thread(2, "project:q"), thread(3, "t"),
		`INSERT INTO cursor (channel, identity, position) VALUES ('project:p', 'x', '{}'), ('project:p', 'y', '{}'), ('t', 'x', '1'), ('chat', '', '2')`,
		"INSERT INTO token (name, sum, namespace) VALUES ('ann', '1', '')",
	), Options{})
	err := s.View(t.Context(), func(r mailroom.Reader) error {
		rows, err := r.Threads(mailroom.ThreadQuery{Oldest: true})
		for i, want := range []int64{2, 0, 0} {
			if err == nil && (rows[i].Inboxes != want || rows[i].Bytes != 7) {
				t.Errorf("%s has %d inboxes and %d bytes, want %d and 7", rows[i].ID, rows[i].Inboxes, rows[i].Bytes, want)
			}
		}
		tokens, err := r.Tokens()
		if err == nil && tokens[0].Used != (mailroom.Use{}) {
			t.Errorf("the token has %+v, want nothing", tokens[0].Used)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
