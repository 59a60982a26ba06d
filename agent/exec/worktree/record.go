package worktree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// record is what is known of a tree, outside of it.
type record struct {
	Key        string `json:"key"`
	Task       string `json:"task"` // such as the id of a thread
	Repository string `json:"repository"`
	Top        string `json:"top,omitempty"` // working tree of the person, "" if the repository is bare
	Path       string `json:"path"`
	Branch     string `json:"branch"`
	Base       string `json:"base"`
	// Ref is the branch that the work is for, of Remote, or of the repository if that is ""; "" if none is known.
	Remote string `json:"remote,omitempty"`
	Ref    string `json:"ref,omitempty"`
	// Stale says why the base may not be the newest commit of Ref, "" if it was.
	Stale string `json:"stale,omitempty"`
	// Nonce is in the first entry of the branch's log. A person's branch of the same name does not have it.
	Nonce   string    `json:"nonce"`
	Created time.Time `json:"created"`
	// Complete is set when the tree has all files. Before that no run has worked in it.
	Complete bool `json:"complete,omitempty"`
	// Pointers says which files have only pointers of git LFS, "" if none.
	Pointers string `json:"pointers,omitempty"`
	// Setup is the state of the set-up of a complete tree; nil if it needs none.
	Setup *setup `json:"setup,omitempty"`
	// Pushed is the last commit that was pushed; "" before the first push.
	Pushed string `json:"pushed,omitempty"`
	// Before has the commits of the branch before it was rebased last, as a range of git; "" if it never was.
	Before string `json:"before,omitempty"`
	// Move is set while the branch is being rebased.
	Move *move `json:"move,omitempty"`
	// PullRequest is the address of the branch's pull request, "" if none is known.
	PullRequest string `json:"pull_request,omitempty"`
	// Disposable is as in [Options], so that the commands of a person know it too.
	Disposable []string `json:"disposable,omitempty"`
	// Keep is set by a person who wants the tree to stay.
	Keep bool `json:"keep,omitempty"`
	// Removing is the commit of a tree that is being removed: nothing in it can be lost.
	Removing string `json:"removing,omitempty"`
	// Entry is the name of the tree's folder in the git folder, from the begin of its removal on.
	Entry string `json:"entry,omitempty"`
}

const (
	recordSuffix = ".json"
	maxRecord    = 64 << 10
)

func (r *Repository) recordPath(key string) string { return filepath.Join(r.records, key+recordSuffix) }

// read returns the record of a key, or nil.
func (r *Repository) read(key string) (*record, error) {
	raw, err := os.ReadFile(r.recordPath(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var rec record
	if err == nil {
		err = json.Unmarshal(raw[:min(len(raw), maxRecord)], &rec)
	}
	if err == nil && (rec.Key != key || rec.Branch == "" || rec.Base == "" || rec.Nonce == "") {
		err = errors.New("it is not complete")
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of worktree %s: %w", key, err)
	}
	return &rec, nil
}

// write stores a record, so that it is on disk before the step that it announces.
func (r *Repository) write(rec *record) error {
	raw, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record of worktree %s: %w", rec.Key, err)
	}
	return r.writeFile(r.recordPath(rec.Key), raw)
}

// writeFile stores a file of the records atomically.
func (r *Repository) writeFile(path string, raw []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(append(raw, '\n'))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncFolder(r.records)
	}
	if err != nil {
		return fmt.Errorf("write the record %s: %w", filepath.Base(path), diskProblem(err))
	}
	return nil
}

// syncFolder makes new names in a folder durable. Systems that cannot sync a folder keep names in a journal.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}
