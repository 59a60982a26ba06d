package bd

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"mailroom"
	"mailroom/issues/tracker"
)

// signature returns the actor and the current time. signature may run git, which can be slow, so do not call it under
// the tracker's lock; see [Main.anonymousSignature].
func (m *Main) signature(ctx context.Context) tracker.Signature {
	return tracker.Signature{Actor: m.actorName(ctx), At: time.Now()}
}

func (m *Main) anonymousSignature() tracker.Signature { return tracker.Signature{At: time.Now()} }

// actorName returns the name under which changes are made: the one that was given, or the user's. Where no name was
// given, the session of the agent, or else the linked worktree, follows the user's name: agents of one user work at
// the same time, and a claim keeps two agents apart only if their names differ.
func (m *Main) actorName(ctx context.Context) string {
	for _, name := range []string{m.actor, m.Env("BD_ACTOR"), m.Env("BEADS_ACTOR")} {
		if name != "" {
			return name
		}
	}
	name := m.userName(ctx)
	if session := session(m.Env); session != "" {
		return name + "/" + session
	}
	if top, common := repository(m.Dir); top != "" && common != filepath.Join(top, ".git") {
		return name + "/" + filepath.Base(top)
	}
	return name
}

func (m *Main) userName(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, tracker.GitTimeout)
	defer cancel()
	if out, err := tracker.Git(ctx, m.Dir, "config", "user.name").Output(); err == nil &&
		len(strings.TrimSpace(string(out))) > 0 {
		return strings.TrimSpace(string(out))
	}
	if name := m.Env("USER"); name != "" {
		return name
	}
	return "unknown"
}

// session returns a name for the conversation of the agent that runs this command, "" for a person. Agents set a
// variable with the conversation's id for the commands that they run. These public discussions introduced the
// variables:
//
//   - codex: openai/codex, pull request 10096
//   - claude: anthropics/claude-code, issues 25642 and 39553
//
// An agent that another agent starts inherits the variable of the outer agent (openai/codex, issue 15527). The name
// then has the ids of both agents, and so still differs from the outer agent's name.
func session(env func(string) string) string {
	const shown = 8 // characters: ids that begin alike belong to sessions of different days
	var parts []string
	for _, of := range []struct{ program, variable string }{
		{"codex", "CODEX_THREAD_ID"}, {"claude", "CLAUDE_CODE_SESSION_ID"}, {"claude", "CLAUDE_SESSION_ID"},
	} {
		id := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return -1
		}, env(of.variable))
		if id == "" || len(parts) > 0 && strings.HasPrefix(parts[len(parts)-1], of.program) {
			continue
		}
		parts = append(parts, of.program+"-"+id[max(0, len(id)-shown):])
	}
	return strings.Join(parts, "/")
}

// heldError says that the actor who runs the command has claimed the issue already.
type heldError struct{ error }

func (e heldError) Unwrap() error { return e.error }

// held returns an error if the actor has claimed the issue already. Without the error, two agents with the same name
// could both work on the issue.
func held(it *tracker.Issue, by tracker.Signature) error {
	if it.Status != tracker.StatusInProgress || it.Assignee != by.Actor {
		return nil
	}
	return heldError{mailroom.Errorf(mailroom.CodeConflict,
		"%s is already yours (%s), in progress since %s; go on if you claimed it; if another agent works under this name, leave it, and set BD_ACTOR to a name of your own; --force claims it again",
		it.ID, by.Actor, it.UpdatedAt.UTC().Format(time.RFC3339))}
}
