package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
	"mailroom/internal/display"
	"mailroom/schedule/plan"
)

// scheduleCommand has the subcommands for schedules.
func scheduleCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "Send messages at their times: each day at 7, every 90 minutes, once",
		Long: `Send messages at their times. Each time is accounted for: its message is sent once, or the
log of the schedule says why it was skipped, also if a server is killed or down. A schedule
uses the rights of the token that makes it, and is paused when that token ends.`,
		Example: `  mailroom schedule add "0 7 * * 1-5" --name report --agent coder "Summarize my inbox."
  mailroom schedule list
  mailroom schedule show report
  mailroom schedule pause report --note holidays`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return command.UsageErrorf(cmd, "missing subcommand: add, list, show, next, run, pause, resume or delete")
		},
	}
	cmd.AddCommand(scheduleAddCommand(con), scheduleListCommand(con), scheduleShowCommand(con), scheduleNextCommand(con),
		scheduleRunCommand(con), schedulePauseCommand(con), scheduleResumeCommand(con), scheduleDeleteCommand(con))
	return cmd
}

// when explains the argument WHEN.
const when = `WHEN is one of:
  "0 7 * * 1-5"            five fields of cron: minute, hour, day of month, month, day of week
  "every 90m"              an interval, from now on
  "in 30m"                 once, after a time
  2030-01-31T18:00:00Z     once, at a time`

func scheduleAddCommand(con *command.Console) *cobra.Command {
	var spec api.ScheduleSpec
	var name string
	var own bool
	pauseAfter := plan.DefaultPauseAfter
	cmd := &cobra.Command{
		Use:   "add WHEN TEXT",
		Short: "Make a schedule, or change the one of that name",
		Long:  "Make a schedule, or change the one of that name. It sends TEXT.\n\n" + when,
		Example: `  mailroom schedule add "0 7 * * 1-5" --agent coder --thread inbox "Summarize what is new."
  mailroom schedule add "every 90m" --name watch --thread ops --busy skip "Anything new?"
  mailroom schedule add "in 30m" --thread inbox "Remind me of the oven."`,
		Args: cobra.ExactArgs(2),
	}
	output := command.FormatFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name of the schedule (default: the first words of TEXT)")
	f.StringVar(&spec.Agent, "agent", "", "agent that gets the message (default: that of the thread)")
	f.StringVar(&spec.Thread, "thread", "", "thread that gets the message (default: a new one each time)")
	f.BoolVar(&own, "own", false, "one of the 20 own schedules of --thread (default $MAILROOM_THREAD), which ends with it")
	f.StringVar(&spec.Zone, "zone", "", "time zone of cron and quiet: Europe/Berlin (default: this machine's, else UTC)")
	f.StringVar(&spec.Quiet, "quiet", "", "part of each day, in --zone, in which nothing is sent, such as 22:00-07:00")
	f.StringVar(&spec.SilentWord, "silent-word", "", "a reply of this word alone is not delivered to a chat")
	f.StringVar(&spec.Busy, "busy", "", "if other work keeps the thread busy: queue, steer or skip (default queue)")
	f.StringVar(&spec.Overlap, "overlap", "", "if a run of the schedule is open: skip, one or all (default skip)")
	f.StringVar(&spec.CatchUp, "catch-up", "", "after a time without a server: one, none or all (default one)")
	f.StringVar(&spec.Window, "window", "", "how late a message may be sent (default 1h)")
	f.StringVar(&spec.Jitter, "jitter", "", "send up to this much later, to spread schedules of the same times")
	f.StringVar(&spec.Timeout, "timeout", "", "how long each run may take (default: no bound)")
	f.IntVar(&pauseAfter, "pause-after", pauseAfter, "failed runs in a row that pause the schedule; 0: none")
	completeWords(cmd, "busy", []string{"queue", "steer", "skip"})
	completeWords(cmd, "overlap", []string{"skip", "one", "all"})
	completeWords(cmd, "catch-up", []string{"one", "none", "all"})
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if err := readWhen(con, args[0], &spec); err != nil {
			return command.UsageErrorf(cmd, "%v", err)
		}
		if spec.Quiet != "" && spec.Zone == "" {
			spec.Zone = localZone(con.Env)
		}
		spec.Text, spec.PauseAfter = args[1], &pauseAfter
		if _, err := plan.ReadSpec(&spec, time.Now()); err != nil { // with the words of this command
			return command.UsageErrorf(cmd, "%v", err)
		}
		save := c.Schedules.Put
		if own {
			save, spec.Thread = c.Schedules.PutOwn, cmp.Or(spec.Thread, con.Env("MAILROOM_THREAD"))
		}
		made, err := save(cmd.Context(), cmp.Or(name, nameOf(spec.Text)), spec)
		if err != nil {
			return err
		}
		out, err := c.Schedules.Get(cmd.Context(), "", made.Name)
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(out)
		}
		return printSchedule(con, &out)
	})
}

// readWhen sets the times of a spec from the argument WHEN.
func readWhen(con *command.Console, text string, spec *api.ScheduleSpec) error {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "every "); ok {
		if _, err := time.ParseDuration(rest); err == nil {
			spec.Every = rest
			return nil
		}
	}
	if rest, ok := strings.CutPrefix(text, "in "); ok {
		if _, err := time.ParseDuration(rest); err == nil {
			spec.At = rest
			return nil
		}
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		spec.At = text
		return nil
	}
	if _, err := time.ParseDuration(text); err == nil {
		return fmt.Errorf("%q may be \"every %s\" or \"in %s\": write one of them", text, text, text)
	}
	spec.Cron = text
	if spec.Zone == "" {
		spec.Zone = localZone(con.Env)
	}
	return nil
}

// localZone returns the name of the time zone of this machine, "" if it has none.
func localZone(env func(string) string) string {
	name := strings.TrimPrefix(env("TZ"), ":")
	if name == "" {
		target, err := os.Readlink("/etc/localtime")
		if err != nil {
			return ""
		}
		_, name, _ = strings.Cut(target, "zoneinfo/")
	}
	switch name {
	case "Local", "Etc/UTC", "Etc/GMT", "UTC":
		return ""
	}
	if _, err := time.LoadLocation(name); err != nil {
		return ""
	}
	return name
}

// nameOf makes a name of the first words of a text.
func nameOf(text string) string {
	var words []string
	for _, w := range strings.FieldsFunc(strings.ToLower(display.Gist(text, 200)), func(c rune) bool {
		return plan.CheckName(string(c)) != nil
	}) {
		if w = strings.Trim(w, ".-_"); w != "" && len(words) < 4 && len(strings.Join(words, "-"))+len(w) < 40 {
			words = append(words, w)
		}
	}
	return cmp.Or(strings.Join(words, "-"), "schedule")
}

func scheduleListCommand(con *command.Console) *cobra.Command {
	var all bool
	var thread string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules",
		Example: `  mailroom schedule list
  mailroom schedule list --all-owners -o jsonl`,
		Args: cobra.NoArgs,
	}
	output := command.ListFormatFlag(cmd, false)
	cmd.Flags().BoolVar(&all, "all-owners", false, "also the schedules of other tokens; needs the scope admin")
	cmd.Flags().StringVar(&thread, "own", "", "only the own schedules of this `THREAD`")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		owner := ""
		if all {
			owner = "*"
		}
		items, err := listSchedules(cmd.Context(), c, owner, thread)
		if err != nil {
			return err
		}
		switch *output {
		case command.FormatJSON:
			return con.PrintJSON(struct {
				Items []api.Schedule `json:"items"`
			}{items})
		case command.FormatJSONLines:
			for _, s := range items {
				if err := con.PrintJSON(s); err != nil {
					return err
				}
			}
			return nil
		}
		rows := [][]string{{"NAME", "WHEN", "ZONE", "AGENT", "THREAD", "NEXT", "LAST", "SENT", "SKIPPED"}}
		for i := range items {
			s := &items[i]
			rows = append(rows, []string{s.Name, timesOf(&s.Spec), cmp.Or(s.Spec.Zone, "UTC"), cmp.Or(s.Spec.Agent, "-"),
				cmp.Or(s.Spec.Thread, "(new)"), nextOf(con, s.NextAt, s.Paused), lastOf(s),
				fmt.Sprint(s.Sent), fmt.Sprint(s.Skipped)})
		}
		return con.PrintList(rows, nil, `no schedules: make one with mailroom schedule add "0 7 * * 1-5" TEXT`)
	})
}

// listSchedules returns the schedules of an owner or, if thread is not "", the own ones of a thread.
func listSchedules(ctx context.Context, c *client.Client, owner, thread string) ([]api.Schedule, error) {
	if thread != "" {
		return c.Schedules.ListOwn(ctx, thread)
	}
	return c.Schedules.List(ctx, owner)
}

// timesOf formats the times of a schedule.
func timesOf(s *api.ScheduleSpec) string {
	if s.Every != "" {
		return "every " + s.Every
	}
	return cmp.Or(s.Cron, "once "+s.At)
}

// nextOf says when the next message is sent, or why none is.
func nextOf(con *command.Console, at *time.Time, paused *api.SchedulePause) string {
	switch {
	case paused != nil:
		return "paused"
	case at == nil:
		return "never"
	}
	return con.When(at)
}

// lastOf says what became of the last message.
func lastOf(s *api.Schedule) string {
	if len(s.Results) == 0 {
		return "-"
	}
	r := s.Results[len(s.Results)-1]
	if r.Skipped != "" {
		return "skipped: " + string(r.Skipped)
	}
	return string(r.Status)
}

func scheduleShowCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a schedule, its next times and what became of its last messages",
		Example: `  mailroom schedule show report`,
		Args:    cobra.ExactArgs(1),
	}
	output, owner := command.FormatFlag(cmd), ownerFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		s, err := c.Schedules.Get(cmd.Context(), *owner, args[0])
		if err != nil {
			return err
		}
		if *output == command.FormatJSON {
			return con.PrintJSON(s)
		}
		return printSchedule(con, &s)
	})
}

func ownerFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("owner", "",
		"token that owns the schedule (default: the one in use; another needs the scope admin)")
}

// shownTime is how the times of a schedule are printed: in its zone, with the day of the week.
const shownTime = "Mon 2006-01-02 15:04:05 MST"

// printSchedule prints a schedule as a list of fields.
func printSchedule(con *command.Console, s *api.Schedule) error {
	zone, err := time.LoadLocation(s.Spec.Zone)
	if err != nil {
		zone = time.UTC
	}
	rows := [][]string{
		{"Name", s.Name},
		{"Times", strings.TrimSpace(timesOf(&s.Spec) + " " + s.Spec.Zone)},
	}
	if s.Note != "" {
		rows = append(rows, []string{"Note", s.Note})
	}
	rows = append(rows, []string{"Sends", display.Cut(display.Line(s.Spec.Text), 60)},
		[]string{"To", strings.TrimSpace(cmp.Or(s.Spec.Thread, "(a new thread)") + " " + s.Spec.Agent)},
		[]string{"Next", nextOf(con, s.NextAt, s.Paused)})
	for _, at := range s.Next {
		rows = append(rows, []string{"", at.In(zone).Format(shownTime)})
	}
	if p := s.Paused; p != nil {
		rows = append(rows, []string{"Paused", strings.TrimSpace("by " + p.By + " " + con.When(&p.At) + ": " + p.Note)})
	}
	if s.FromFile {
		rows = append(rows, []string{"From", "mailroom.toml, which alone changes it"})
	}
	rows = append(rows, []string{"Sent", fmt.Sprint(s.Sent)}, []string{"Skipped", fmt.Sprint(s.Skipped)})
	for _, r := range s.Results {
		what := cmp.Or(string(r.Status), "skipped: "+string(r.Skipped))
		if r.Count > 0 {
			what += fmt.Sprintf(" (%d)", r.Count)
		}
		rows = append(rows, []string{"", strings.TrimSpace(r.Nominal.In(zone).Format(shownTime) + "  " + what + "  " + r.Run +
			" " + r.Error)})
	}
	rows = append(rows, []string{"Log", s.Log})
	return con.PrintTable(rows)
}

func scheduleNextCommand(con *command.Console) *cobra.Command {
	var spec api.ScheduleSpec
	n := 10
	cmd := &cobra.Command{
		Use:   "next WHEN",
		Short: "Show the next times of WHEN, without a server",
		Long:  "Show the next times of WHEN, without a server.\n\n" + when,
		Example: `  mailroom schedule next "0 7 * * 1-5"
  mailroom schedule next "30 2 * * *" --zone America/New_York -n 3`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&spec.Zone, "zone", "", "time zone of cron (default: that of this machine, else UTC)")
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many times")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := readWhen(con, args[0], &spec); err != nil {
			return command.UsageErrorf(cmd, "%v", err)
		}
		if n < 1 || n > 1000 {
			return command.UsageErrorf(cmd, "--number is not between 1 and 1000")
		}
		spec.Text = "-"
		now := time.Now()
		if spec.Every != "" {
			spec.Anchor = &now
		}
		read, err := plan.ReadSpec(&spec, now)
		if err != nil {
			return command.UsageErrorf(cmd, "%v", err)
		}
		all, err := read.NextTimes(now, n)
		if err != nil {
			return err
		}
		zone, err := read.Location()
		if err != nil {
			return err
		}
		if note := read.Note(); note != "" {
			con.Infof("%s", note)
		}
		for _, at := range all {
			if err := con.Printf("%s\n", at.In(zone).Format(shownTime)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// changed reports a change of a schedule.
func changed(con *command.Console, did string, s *api.ScheduleChanged) {
	con.Infof("%s schedule %s; next: %s", did, s.Name, nextOf(con, s.NextAt, s.Paused))
}

func scheduleRunCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run NAME",
		Short:   "Send the message of a schedule now, also while it is paused",
		Example: `  mailroom schedule run report`,
		Args:    cobra.ExactArgs(1),
	}
	owner := ownerFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		s, err := c.Schedules.Run(cmd.Context(), *owner, args[0])
		if err == nil {
			changed(con, "sent", &s)
		}
		return err
	})
}

func schedulePauseCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Pause a schedule",
		Example: `  mailroom schedule pause report --note holidays`,
		Args:    cobra.ExactArgs(1),
	}
	owner, note := ownerFlag(cmd), cmd.Flags().String("note", "", "why, for people")
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		s, err := c.Schedules.Pause(cmd.Context(), *owner, args[0], *note)
		if err == nil {
			changed(con, "paused", &s)
		}
		return err
	})
}

func scheduleResumeCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume NAME",
		Short:   "End the pause of a schedule; what was due in between is skipped",
		Example: `  mailroom schedule resume report`,
		Args:    cobra.ExactArgs(1),
	}
	owner := ownerFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		s, err := c.Schedules.Resume(cmd.Context(), *owner, args[0])
		if err == nil {
			changed(con, "resumed", &s)
		}
		return err
	})
}

func scheduleDeleteCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a schedule with its log; the runs that it sent go on",
		Example: `  mailroom schedule delete report`,
		Args:    cobra.ExactArgs(1),
	}
	owner := ownerFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		if err := c.Schedules.Delete(cmd.Context(), *owner, args[0]); err != nil {
			return err
		}
		con.Infof("deleted schedule %s", args[0])
		return nil
	})
}
