package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"mailroom/agent/exec/worktree"
)

// AnyOption in a list of options means all options.
const AnyOption = "*"

// OptionModel is the option that a program with a profile can take.
const OptionModel = "model"

// CheckOptions returns an error if options, those of a submit, contain an option that is not in takes. takes are the
// options that the agent takes; nil means all. The error names the agent, or the program that it runs, by name.
func CheckOptions(name string, takes []string, options json.RawMessage) error {
	if len(options) == 0 || string(options) == "null" || takes == nil || slices.Contains(takes, AnyOption) {
		return nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(options, &given) != nil {
		return fmt.Errorf("%s takes options as a JSON object only; use an object, or leave options out", name)
	}
	for _, option := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(takes, option):
		case len(takes) == 0:
			return fmt.Errorf(
				"%s takes no options, but got %q; leave options out, or allow it by options in the configuration of the agent",
				name, option)
		default:
			return fmt.Errorf("%s does not take the option %q; use %s", name, option, strings.Join(takes, ", "))
		}
	}
	return nil
}

// OptionRepo is the option that names the git repository of a worktree, by an absolute path.
const OptionRepo = "repo"

// RepoOption returns the folder that options name, or "" if they name none.
func RepoOption(options json.RawMessage) (string, error) {
	var given struct {
		Repo *string `json:"repo"`
	}
	if len(options) == 0 || json.Unmarshal(options, &given) == nil && given.Repo == nil {
		return "", nil
	}
	if given.Repo == nil || len(*given.Repo) > maxRepo || !filepath.IsAbs(*given.Repo) {
		return "", errors.New("the option repo is not an absolute path; use the folder of a git repository")
	}
	return filepath.Clean(*given.Repo), nil
}

// maxRepo bounds the path of a repository, in bytes.
const maxRepo = 4096

// CheckRepo returns an error unless a folder is one of the allowed folders or in one of them, after links are followed.
// The error is the same for a folder that does not exist.
func CheckRepo(allowed []string, repo string) error {
	if info, err := os.Stat(repo); err == nil && info.IsDir() && worktree.IsWithin(repo, allowed) {
		return nil
	}
	return errors.New("the option repo names no folder that repos of the agent allows")
}

// maxModel bounds the name of a model, in bytes.
const maxModel = 200

// ModelOption returns the model that options ask for, or "" if they ask for none. It refuses a name that begins with
// a dash, because the program would take the name for a flag.
func ModelOption(options json.RawMessage) (string, error) {
	var given struct {
		Model *string `json:"model"`
	}
	if len(options) == 0 {
		return "", nil
	}
	if json.Unmarshal(options, &given) != nil {
		return "", errors.New("the option model is not a string; use the name of a model")
	}
	if given.Model == nil {
		return "", nil
	}
	m := *given.Model
	if m == "" || len(m) > maxModel || strings.HasPrefix(m, "-") || strings.ContainsFunc(m, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r)
	}) {
		return "", fmt.Errorf("the option model is not the name of a model: use one of at most %d bytes without spaces",
			maxModel)
	}
	return m, nil
}
