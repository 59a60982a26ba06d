package plan

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/display"
	"mailroom/internal/setting"
	"mailroom/thread"
)

// Limits of a schedule.
const (
	maxName    = 60 // characters
	MaxSpec    = 8 << 10
	MaxCron    = 200 // characters
	maxJitter  = 24 * time.Hour
	maxOpen    = 20 // runs that were sent and have not ended
	maxResults = 10 // that are kept
	minEvery   = time.Minute
	// maxSilentWord is in characters.
	maxSilentWord = 60
	maxEvery      = 10 * 365 * 24 * time.Hour
	maxWindow     = 7 * 24 * time.Hour

	// defaultWindow is how late an occurrence may be sent.
	defaultWindow = time.Hour
	// DefaultPauseAfter is the number of failures in a row that pause a schedule, because people do not watch it.
	DefaultPauseAfter = 5
	// minYear and maxYear bound the times of a spec: their distance is a time.Duration, and they are JSON.
	minYear, maxYear = 1970, 2200
	// onTime is how late an occurrence may be that is sent with [catchUpNone].
	onTime = time.Minute
	// maxCounted bounds how many occurrences a skip counts.
	maxCounted = 1000
)

// Overlap says what becomes of an occurrence while a run of an earlier one is open.
type Overlap string

// Policies of an overlap.
const (
	overlapSkip Overlap = "skip" // it is skipped; the default
	OverlapOne  Overlap = "one"  // the last such occurrence is sent once no run is open
	overlapAll  Overlap = "all"  // it is sent; in one thread its run waits in the queue
)

// CatchUp says which occurrences are sent late, after a time in which no server ran.
type CatchUp string

// Policies of catching up, each within the window.
const (
	catchUpOne  CatchUp = "one"  // the last one; the default
	catchUpNone CatchUp = "none" // those that are at most a minute late
	catchUpAll  CatchUp = "all"  // all, in order
)

// Busy says what becomes of a message if other work keeps its thread busy.
type Busy string

// Policies for a busy thread.
const (
	busyQueue Busy = "queue" // its run waits in the queue; the default
	BusySteer Busy = "steer" // the current run gets the message
	BusySkip  Busy = "skip"  // the occurrence is skipped
)

// Spec says when a schedule sends, what, and where to. Exactly one of Cron, Every and At is set.
type Spec struct {
	Cron   string        `json:"cron,omitempty"` // five fields, in Zone
	Every  time.Duration `json:"every,omitempty"`
	Anchor time.Time     `json:"anchor,omitzero"` // with Every: a time of the grid; zero: when the schedule was made
	At     time.Time     `json:"at,omitzero"`     // once
	Zone   string        `json:"zone,omitempty"`  // name in the IANA database; "" is UTC
	Start  time.Time     `json:"start,omitzero"`
	End    time.Time     `json:"end,omitzero"`
	// Quiet is a part of each day, in Zone, such as 22:00-07:00: occurrences in it are skipped.
	Quiet string `json:"quiet,omitempty"`
	// Jitter delays each occurrence by less than this, and less than half of the distance to the next, by the same
	// amount whenever it is computed. It spreads schedules that have the same times.
	Jitter time.Duration `json:"jitter,omitempty"`

	Thread   string            `json:"thread,omitempty"` // "": a new thread for each occurrence
	Agent    string            `json:"agent,omitempty"`
	Text     string            `json:"text"`
	Priority *int              `json:"priority,omitempty"`
	Timeout  time.Duration     `json:"timeout,omitempty"` // of each run, from the time when it is sent; 0: none
	Options  json.RawMessage   `json:"options,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`

	// SilentWord is a reply that is not delivered to a chat, see [display.IsSilent]. "": each is.
	SilentWord string `json:"silent_word,omitempty"`

	Busy    Busy          `json:"busy,omitempty"`
	Overlap Overlap       `json:"overlap,omitempty"`
	CatchUp CatchUp       `json:"catch_up,omitempty"`
	Window  time.Duration `json:"window,omitempty"` // 0: defaultWindow, and maxWindow for At
	// PauseAfter is how many failed runs in a row pause the schedule; 0: none.
	PauseAfter int `json:"pause_after,omitempty"`
}

// CheckName returns an error unless name may be the name of a schedule: it is part of the id of a thread.
func CheckName(name string) error {
	switch {
	case name == "":
		return check.Invalid("name", "is empty", name)
	case utf8.RuneCountInString(name) > maxName:
		return check.Invalid("name", fmt.Sprintf("is longer than %d characters", maxName), name)
	}
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.", c) {
			return check.Invalid("name", "may have letters, digits, dots, hyphens and underscores only", name)
		}
	}
	return nil
}

// Check validates s at now, and sets what it leaves open. It refuses a schedule that never fires.
func (s *Spec) Check(now time.Time) error {
	if err := s.checkTimes(); err != nil {
		return err
	}
	if err := s.checkMessage(); err != nil {
		return err
	}
	if err := s.checkPolicies(); err != nil {
		return err
	}
	if s.Window == 0 {
		s.Window = defaultWindow
		if !s.At.IsZero() {
			s.Window = maxWindow
		}
	}
	times, err := s.times()
	if err != nil {
		return err
	}
	if times.Next(now).IsZero() {
		return check.Invalid(s.whenField(), "never fires from now on", s.when())
	}
	if s.Quiet != "" {
		if err := s.checkQuiet(now); err != nil {
			return err
		}
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode a schedule: %w", err)
	}
	if len(encoded) > MaxSpec {
		return check.TooLarge("schedule", fmt.Sprintf("is larger than %d bytes as JSON: send a shorter text, or let the "+
			"agent read it from a file", MaxSpec), len(encoded))
	}
	return nil
}

func (s *Spec) checkTimes() error {
	set := 0
	for _, one := range []bool{s.Cron != "", s.Every != 0, !s.At.IsZero()} {
		if one {
			set++
		}
	}
	switch {
	case set != 1:
		return check.Invalid("cron", "needs exactly one of cron, every and at", s.Cron)
	case s.Every != 0 && s.Every < minEvery:
		return check.Invalid("every", fmt.Sprintf("is shorter than %s", minEvery), s.Every.String())
	case s.Every > maxEvery:
		return check.Invalid("every", "is longer than ten years", s.Every.String())
	case utf8.RuneCountInString(s.Cron) > MaxCron:
		return check.TooLarge("cron", fmt.Sprintf("is longer than %d characters", MaxCron), utf8.RuneCountInString(s.Cron))
	case !s.Anchor.IsZero() && s.Every == 0:
		return check.Invalid("anchor", "is only for every", s.Anchor.Format(time.RFC3339))
	case s.Jitter < 0 || s.Jitter > maxJitter:
		return check.Invalid("jitter", fmt.Sprintf("is not between 0 and %s", maxJitter), s.Jitter.String())
	case !s.Start.IsZero() && !s.End.IsZero() && !s.End.After(s.Start):
		return check.Invalid("end", "is not after start", s.End.Format(time.RFC3339))
	}
	for _, t := range []struct {
		field string
		at    time.Time
	}{{"anchor", s.Anchor}, {"at", s.At}, {"start", s.Start}, {"end", s.End}} {
		if !t.at.IsZero() && (t.at.Year() < minYear || t.at.Year() > maxYear) {
			return check.Invalid(t.field, fmt.Sprintf("is not in the years %d to %d", minYear, maxYear),
				t.at.Format(time.RFC3339))
		}
	}
	_, err := s.times()
	return err
}

func (s *Spec) checkMessage() error {
	if strings.TrimSpace(s.Text) == "" {
		return check.Invalid("text", "is empty: it is the message that is sent", s.Text)
	}
	if !check.IsClean(s.Text) {
		return check.Invalid("text", "is not valid UTF-8 text", s.Text)
	}
	if w := s.SilentWord; w != "" && (!display.IsSilent(w, w) || utf8.RuneCountInString(w) > maxSilentWord) {
		return check.Invalid("silent_word", fmt.Sprintf("must have a letter or a digit, and at most %d characters",
			maxSilentWord), w)
	}
	if s.Thread != "" {
		id, err := check.ThreadID(s.Thread)
		if err != nil {
			return err
		}
		s.Thread = id
	}
	if s.Timeout < 0 || s.Timeout > maxEvery {
		return check.Invalid("timeout", "is not between 0 and ten years", s.Timeout.String())
	}
	// The rules of what the schedule will send, so that no fire is refused for what could be seen now.
	return s.Submit("", time.Time{}).Check()
}

// Submit returns what the schedule of a name sends at a nominal time, without what follows from its policies.
func (s *Spec) Submit(name string, nominal time.Time) *thread.Submit {
	in := &thread.Submit{
		Thread: s.Thread, Agent: s.Agent, Messages: []thread.NewMessage{{Parts: mailroom.Text(s.Text)}},
		Priority: s.Priority, Timeout: s.Timeout, Options: s.Options, Metadata: map[string]string{},
	}
	maps.Copy(in.Metadata, s.Metadata)
	in.Metadata["schedule"], in.Metadata["nominal"] = name, nominal.UTC().Format(time.RFC3339)
	return in
}

func (s *Spec) checkPolicies() error {
	if err := oneOf("busy", &s.Busy, busyQueue, BusySteer, BusySkip); err != nil {
		return err
	}
	if err := oneOf("overlap", &s.Overlap, overlapSkip, OverlapOne, overlapAll); err != nil {
		return err
	}
	if err := oneOf("catch_up", &s.CatchUp, catchUpOne, catchUpNone, catchUpAll); err != nil {
		return err
	}
	switch {
	case s.Busy != busyQueue && s.Thread == "":
		return check.Invalid("busy", "needs a thread: a new one is never busy", string(s.Busy))
	case s.Window < 0 || s.Window > maxWindow:
		return check.Invalid("window", fmt.Sprintf("is not between 0 and %s", maxWindow), s.Window.String())
	case s.PauseAfter < 0:
		return check.Invalid("pause_after", "is negative", fmt.Sprint(s.PauseAfter))
	}
	return nil
}

// oneOf sets an empty value to the first of the allowed ones, and refuses others.
func oneOf[T ~string](field string, value *T, allowed ...T) error {
	if *value == "" {
		*value = allowed[0]
	}
	var names []string
	for _, a := range allowed {
		if a == *value {
			return nil
		}
		names = append(names, string(a))
	}
	return check.Invalid(field, "is unknown: use one of "+strings.Join(names, ", "), string(*value))
}

// Location returns the zone of the schedule.
func (s *Spec) Location() (*time.Location, error) {
	if s.Zone == "Local" { // servers may have different zones
		return nil, check.Invalid("zone", "is the zone of one machine: use a name such as Europe/Berlin", s.Zone)
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		near := "one such as Europe/Berlin"
		if guess := guessZone(s.Zone); guess != "" {
			near = guess
		}
		return nil, check.Invalid("zone", "is not the name of a time zone: use "+near+", or UTC", s.Zone)
	}
	return zone, nil
}

// times returns the occurrences, without jitter.
func (s *Spec) times() (occurrences, error) {
	zone, err := s.Location()
	if err != nil {
		return nil, err
	}
	var times occurrences
	switch {
	case s.Every > 0:
		times = interval{later(s.Anchor, time.Unix(0, 0)), s.Every} // without an anchor until the schedule is made
	case !s.At.IsZero():
		times = once{s.At.UTC()}
	default:
		if times, err = parseCron(s.Cron, zone); err != nil {
			return nil, check.Invalid("cron", err.Error(), s.Cron)
		}
	}
	return between{times, s.Start, s.End}, nil
}

// when returns the times of the schedule as text: "0 7 * * 1-5", "every 10m" or a time.
func (s *Spec) when() string {
	switch {
	case s.Every > 0:
		return "every " + setting.FormatDuration(s.Every)
	case !s.At.IsZero():
		return s.At.UTC().Format(time.RFC3339)
	}
	return s.Cron
}

func (s *Spec) whenField() string {
	switch {
	case s.Every > 0:
		return "every"
	case !s.At.IsZero():
		return "at"
	}
	return "cron"
}

// Note returns what people often read otherwise in the times, "" if there is nothing of this kind.
func (s *Spec) Note() string {
	fields := strings.Fields(s.Cron)
	if len(fields) != 5 || strings.Trim(fields[2], "*?") == "" || strings.Trim(fields[4], "*?") == "" {
		return ""
	}
	return fmt.Sprintf("it fires on each day of month %s, and also on each day of week %s: cron joins the two by or",
		fields[2], fields[4])
}

// NextTimes returns up to n occurrences after a time outside of the quiet window, without jitter.
func (s *Spec) NextTimes(after time.Time, n int) (all []time.Time, err error) {
	times, err := s.loudTimes()
	if err != nil {
		return nil, err
	}
	for range n {
		if after = times.Next(after); after.IsZero() {
			break
		}
		all = append(all, after)
	}
	return all, nil
}

// anchor sets the anchor of an interval that has none: the one of the schedule before, if only other things change, so
// that a repeated change does not put its times off for ever.
func (s *Spec) anchor(before *State, now time.Time) {
	if s.Every == 0 || !s.Anchor.IsZero() {
		return
	}
	s.Anchor = now.UTC().Truncate(time.Second)
	if before != nil && before.Spec.Every == s.Every {
		s.Anchor = before.Spec.Anchor
	}
}

// delay returns the jitter of an occurrence of the schedule id.
func (s *Spec) delay(id string, times occurrences, nominal time.Time) time.Duration {
	most := s.Jitter
	if most == 0 {
		return 0
	}
	if next := times.Next(nominal); !next.IsZero() {
		most = min(most, next.Sub(nominal)/2)
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s\x00%d", id, nominal.Unix()) // a hash takes all bytes
	return time.Duration(h.Sum64() % uint64(max(most, 1))).Truncate(time.Millisecond)
}
