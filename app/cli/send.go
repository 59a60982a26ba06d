package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
)

// maxStdin limits the text on standard input. The server's limit is lower.
const maxStdin = 8 << 20

func sendCommand(con *command.Console) *cobra.Command {
	var in api.Submit
	var mode, at, deadline, budget, retries, repo string
	var metadata, files []string
	var priority, attempts, crashes int
	var detach bool
	cmd := &cobra.Command{
		Use:   "send [flags] TEXT…",
		Short: "Send a message and show the reply as it is written",
		Long: `Send a message and show the reply as it is written.

The reply goes to standard output, everything else to standard error. The text "-"
reads standard input. --file adds the text of a file. Ctrl-C detaches and cancels nothing. If the run waits for a
decision, the commands that decide are shown and the exit code is 3. A thread delivers to one place:
--notify is refused for a thread that already delivers to another target or to a chat.`,
		Example: `  mailroom send "hello"
  mailroom send --thread notes --agent echo "remember the milk"
  mailroom send --agent tour "show me"
  git diff | mailroom send --thread review -
  mailroom send --thread review --file notes.md "Is this complete?"
  mailroom send --thread night --notify phone --detach "tidy up the tests"
  mailroom send --repo . --thread fix-roof "fix the roof"
  mailroom send --deadline 30m "what do the logs of today say?"
  mailroom send --budget "1usd, 30 turns" "find the slow tests and fix one"
  mailroom send --max-attempts 1 --max-crashes 0 "pay the bill"
  mailroom send --retry first=1m,most=1h,outage=72h --deadline 96h "build the archive"
  mailroom send --thread review --at 2h --metadata ticket=42 --detach "look again"`,
		Args: textOrFiles(&files),
	}
	output := command.FormatFlag(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&files, "file", nil, "text file to send behind the text; may be repeated")
	flags.StringVar(&in.Thread, "thread", "", "thread to send to (default: a new thread)")
	flags.StringVar(&in.Agent, "agent", "", "agent of the thread, from this message on")
	repoFlag(flags, &repo)
	flags.StringVar(&mode, "mode", "",
		"what to do if the thread is busy: queue (default), steer, interrupt, latest, collect or reject")
	keyFlags(flags, &in)
	flags.StringVar(&at, "at", "",
		"start the run no earlier than this: a time such as 2026-11-30T18:00 (local) or 2026-11-30T18:00:00Z, or a "+
			"duration from now such as 2h")
	endFlags(flags, &deadline, &budget)
	flags.IntVar(&priority, "priority", mailroom.DefaultPriority, "priority of the run, 0 to 255, lower first")
	retryFlags(flags, &attempts, &retries, &crashes)
	flags.StringArrayVar(&metadata, "metadata", nil, "label of the run, as NAME=VALUE; may be repeated")
	flags.StringVar(&in.Notify, "notify", "",
		"target of alerts that gets the replies, questions and failures of the thread, see mailroom notify")
	flags.BoolVar(&detach, "detach", false, "print the ids without waiting for the reply")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if in.Text, err = readText(con, args); err != nil {
			return err
		}
		in.Options, err = repoOption(repo)
		if err := errors.Join(err, addFiles(&in, files)); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		in.Mode = mailroom.Mode(mode)
		if in.NotBefore, err = parseTime("at", at, time.Now()); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		if err := parseEnds(&in, deadline, budget); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		if in.Metadata, err = parseMetadata(metadata); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		setIfChanged(cmd, "priority", &in.Priority, &priority)
		setIfChanged(cmd, "max-attempts", &in.MaxAttempts, &attempts)
		if in.Retry, err = parseRetry(retries); err != nil {
			return command.UsageErrorf(cmd, "%w", err)
		}
		setIfChanged(cmd, "max-crashes", &in.MaxCrashes, &crashes)
		return send(cmd.Context(), con, in, detach, *output)
	}
	return cmd
}

// repoFlag adds the flag for a repository.
func repoFlag(flags *pflag.FlagSet, repo *string) {
	flags.StringVar(repo, "repo", "",
		"folder of a git repository, in whose worktree the runs of the thread work; repos of the agent must allow it")
}

// repoOption returns the options for --repo, nil for "". The server reads the folder.
func repoOption(folder string) (json.RawMessage, error) {
	if folder == "" {
		return nil, nil
	}
	path, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("--repo %q: %w", folder, err)
	}
	return json.Marshal(map[string]string{"repo": path})
}

// textOrFiles checks that a message has a text, unless it has files.
func textOrFiles(files *[]string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(*files) > 0 {
			return nil
		}
		return cobra.MinimumNArgs(1)(cmd, args)
	}
}

// setIfChanged points field to value if the command line has the flag, and leaves it nil otherwise.
func setIfChanged(cmd *cobra.Command, flag string, field **int, value *int) {
	if cmd.Flags().Changed(flag) {
		*field = value
	}
}

// endFlags adds the flags that end a run before its agent is done.
func endFlags(flags *pflag.FlagSet, deadline, budget *string) {
	flags.StringVar(deadline, "deadline", "",
		"end the run then if it has not ended before: a time or a duration from now, as for --at")
	flags.StringVar(budget, "budget", "",
		"what the run may use, with all that it sends: 1.50usd, 200k tokens, 30 turns, until a time, or several of them")
}

// parseEnds sets what the flags of endFlags say.
func parseEnds(in *api.Submit, deadline, budget string) (err error) {
	if in.Deadline, err = parseDeadline(deadline, time.Now()); err != nil {
		return err
	}
	in.Budget, err = parseBudget(budget)
	return err
}

// keyFlags adds the flags of keys.
func keyFlags(flags *pflag.FlagSet, in *api.Submit) {
	flags.StringVar(&in.Key, "key", "", "idempotency key: a message with the same key is sent once")
	flags.StringVar(&in.LimitKey, "concurrency-key", "",
		"what key_limit and key_rate of the agent count the run under, such as a customer (default: as its key_from says)")
}

// retryFlags adds the flags of retries.
func retryFlags(flags *pflag.FlagSet, attempts *int, retries *string, crashes *int) {
	flags.IntVar(attempts, "max-attempts", 0,
		"failures after which the run fails for good, 1 to 100 (default: that of the worker, the agent or [retry])")
	flags.StringVar(retries, "retry", "",
		"how its failures are retried, such as first=10s,factor=2,most=5m,outage=12h (default: as for --max-attempts)")
	flags.IntVar(crashes, "max-crashes", mailroom.MaxCrashes,
		"lost claims in a row after which the run fails for good, 0 to 3; 0: a run whose worker is lost is never started "+
			"again")
}

// parseRetry returns --retry as the server takes it, nil for "".
func parseRetry(text string) (*api.RetryPolicy, error) {
	p, err := retry.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--retry %q: %w", text, err)
	}
	return api.FormatRetryPolicy(p), nil
}

// parseDeadline returns --deadline as the server takes it. A duration is sent as a duration, because it starts when
// the server accepts the submit.
func parseDeadline(text string, now time.Time) (string, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return text, nil
	}
	at, err := parseTime("deadline", text, now)
	if err != nil || at == nil {
		return "", err
	}
	return at.Format(time.RFC3339), nil
}

// parseBudget returns --budget as the server takes it, nil for "".
func parseBudget(text string) (*api.Budget, error) {
	if text == "" {
		return nil, nil
	}
	b, err := mailroom.ParseBudget(text)
	if err != nil {
		return nil, fmt.Errorf("--budget: %w", err)
	}
	return api.FormatBudget(b), nil
}

// parseTime parses the time at, the value of the flag named flag. It returns nil for "".
func parseTime(flag, at string, now time.Time) (*time.Time, error) {
	if at == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(at); err == nil && d >= 0 {
		t := now.Add(d)
		return &t, nil
	}
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		return &t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, at, now.Location()); err == nil {
			return &t, nil
		}
	}
	return nil, fmt.Errorf("invalid --%s %q: use a time such as 2026-11-30T18:00 or a duration such as 2h", flag, at)
}

// parseMetadata returns labels given as NAME=VALUE.
func parseMetadata(pairs []string) (map[string]string, error) {
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("invalid --metadata %q: use NAME=VALUE", pair)
		}
		if _, twice := labels[name]; twice {
			return nil, fmt.Errorf("--metadata sets %q twice", name)
		}
		labels[name] = value
	}
	return labels, nil
}

// readText joins args to a message. A single "-" reads standard input and drops its final
// line break.
func readText(con *command.Console, args []string) (string, error) {
	if len(args) != 1 || args[0] != "-" {
		return strings.Join(args, " "), nil
	}
	b, err := io.ReadAll(io.LimitReader(con.Stdin, maxStdin+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(b) > maxStdin {
		return "", command.Errorf(command.ExitUsage, "", "standard input is larger than %d bytes", maxStdin)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// addFiles adds the texts of files to a message, each as a part with its name.
func addFiles(in *api.Submit, files []string) error {
	if len(files) == 0 {
		return nil
	}
	if in.Text != "" {
		in.Parts = mailroom.Text(in.Text)
	}
	in.Text = ""
	for _, path := range files {
		text, err := readFile(path)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		in.Parts = append(in.Parts,
			mailroom.Part{Type: "text", Text: text, Name: name, MimeType: mime.TypeByExtension(filepath.Ext(name))})
	}
	return nil
}

// readFile returns the text of a file.
func readFile(path string) (text string, err error) {
	f, err := setting.OpenFile(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, mailroom.MaxText+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > mailroom.MaxText:
		return "", fmt.Errorf("%s is larger than %d bytes", path, mailroom.MaxText)
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", fmt.Errorf("%s is not a text file in UTF-8", path)
	}
	return string(b), nil
}

func send(ctx context.Context, con *command.Console, in api.Submit, detach bool, output command.Format) error {
	c, err := connect(con)
	if err != nil {
		return err
	}
	if in.Thread, err = resolveThread(ctx, c, in.Thread); err != nil {
		return err
	}
	made := in.Key == ""
	if made {
		in.Key = uuid.NewString()
	}
	done, err := c.Submit(ctx, in)
	if err != nil {
		switch {
		case errors.Is(err, client.ErrNotSent):
			con.Infof("the message was not sent")
		case made && mailroom.CodeOf(err) == mailroom.CodeUnavailable:
			printRetryHint(con, in.Key)
		}
		return err
	}
	if detach {
		return printSubmitted(con, done, output)
	}
	p := newReplyPrinter(con, output)
	if err := p.printSubmitted(in.Thread, done); err != nil {
		return err
	}
	if in.NotBefore != nil {
		con.Infof("starts at %s; Ctrl-C detaches and cancels nothing", in.NotBefore.Local().Format(time.RFC3339))
	}
	if done.Disposition == api.DispositionQueued {
		if err := reportBlocking(ctx, con, c, done); err != nil {
			return err
		}
	}
	q := client.FollowQuery{Run: done.Run, After: fmt.Sprint(done.Seq)}
	return follow(ctx, con, c, q, p, con.CommandLine("attach", done.Thread))
}

// reportBlocking prints how to decide the tickets of an earlier run, if such a run of the thread waits and so blocks
// the new one.
func reportBlocking(ctx context.Context, con *command.Console, c *client.Client, done api.Submitted) error {
	t, err := c.Thread(ctx, done.Thread)
	if err != nil || t.WaitingRun == nil || *t.WaitingRun == done.Run {
		return err
	}
	return reportWaiting(ctx, con, c, *t.WaitingRun)
}

func printRetryHint(con *command.Console, key string) {
	con.Infof("the message may have been accepted; retry with --key %s to avoid a duplicate", key)
}

func printSubmitted(con *command.Console, s api.Submitted, output command.Format) error {
	if output == command.FormatJSON {
		return con.PrintJSON(s)
	}
	rows := [][]string{{"thread", s.Thread}, {"run", s.Run}, {"message", s.Message}, {"status", string(s.Status)}}
	if s.Disposition != api.DispositionQueued {
		rows = append(rows, []string{"disposition", string(s.Disposition)})
	}
	return con.PrintTable(rows)
}
