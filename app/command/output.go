package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"mailroom/internal/display"
)

// Format is the value of the flag -o: the format of a command's output.
type Format string

// Formats of data on Stdout.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
	// FormatJSONLines is one line of JSON for each item of a list.
	FormatJSONLines Format = "jsonl"
	// FormatWide is text with more columns.
	FormatWide Format = "wide"
)

func (f *Format) String() string { return string(*f) }

// Type implements the value of a flag.
func (f *Format) Type() string { return "FORMAT" }

// Set implements the value of a flag.
func (f *Format) Set(s string) error {
	if s != string(FormatText) && s != string(FormatJSON) {
		return fmt.Errorf("use text or json")
	}
	*f = Format(s)
	return nil
}

// FormatFlag adds -o to a command that prints data.
func FormatFlag(cmd *cobra.Command) *Format {
	f := FormatText
	cmd.Flags().VarP(&f, "output", "o", "output format: text or json")
	completeFormat(cmd, FormatText, FormatJSON)
	return &f
}

// listFormat is the value of -o of a command that lists items.
type listFormat struct {
	value   *Format
	formats []string
}

func (f *listFormat) String() string { return string(*f.value) }

func (f *listFormat) Type() string { return "FORMAT" }

func (f *listFormat) Set(s string) error {
	if !slices.Contains(f.formats, s) {
		last := len(f.formats) - 1
		return fmt.Errorf("use %s or %s", strings.Join(f.formats[:last], ", "), f.formats[last])
	}
	*f.value = Format(s)
	return nil
}

// ListFormatFlag adds -o to a command that lists items. With wide, it accepts [FormatWide] too.
func ListFormatFlag(cmd *cobra.Command, wide bool) *Format {
	f := FormatText
	formats := []Format{FormatText, FormatJSON, FormatJSONLines}
	usage := "output format: text, json (one page), or jsonl (one item per line)"
	if wide {
		formats = append(formats, FormatWide)
		usage = "output format: text, json (one page), jsonl (one item per line), or wide"
	}
	value := &listFormat{value: &f}
	for _, format := range formats {
		value.formats = append(value.formats, string(format))
	}
	cmd.Flags().VarP(value, "output", "o", usage)
	completeFormat(cmd, formats...)
	return &f
}

// completeFormat makes a shell complete the value of -o.
func completeFormat(cmd *cobra.Command, formats ...Format) {
	words := make([]cobra.Completion, len(formats))
	for i, f := range formats {
		words[i] = string(f)
	}
	// RegisterFlagCompletionFunc fails only for an unknown flag, or a flag that has a function already.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Printf prints to Stdout, without a line break of its own.
func (c *Console) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Stdout, format, args...)
	return wrapPrintError(err)
}

// PrintJSON prints v to Stdout as one line.
func (c *Console) PrintJSON(v any) error {
	enc := json.NewEncoder(c.Stdout)
	enc.SetEscapeHTML(false)
	return wrapPrintError(enc.Encode(v))
}

// PrintList prints rows, the header first, and to Stderr how to get the next page. If there is no row below the
// header, it prints the text none to Stderr.
func (c *Console) PrintList(rows [][]string, next *string, none string) error {
	if len(rows) == 1 {
		c.Infof("%s", c.Runnable(none))
	} else if err := c.PrintTable(rows); err != nil {
		return err
	}
	c.MoreResults(next)
	return nil
}

// MoreResults prints to Stderr how to get the next page, unless next is nil.
func (c *Console) MoreResults(next *string) {
	if next != nil {
		c.Infof("more results: --cursor %s", Quote(*next))
	}
}

// PrintTable prints rows to Stdout in aligned columns.
func (c *Console) PrintTable(rows [][]string) error {
	w := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = display.Line(cell)
		}
		if _, err := io.WriteString(w, strings.Join(cells, "\t")+"\n"); err != nil {
			return wrapPrintError(err)
		}
	}
	return wrapPrintError(w.Flush())
}

func wrapPrintError(err error) error {
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// When formats a time: relative on a terminal, RFC 3339 elsewhere.
func (c *Console) When(t *time.Time) string {
	switch {
	case t == nil || t.IsZero():
		return "-"
	case IsTerminal(c.Stdout):
		return humanize.Time(*t)
	}
	return t.UTC().Format(time.RFC3339)
}

// Escape returns text for Stdout: escaped by [display.Text] on a terminal, unchanged elsewhere.
func (c *Console) Escape(text string) string {
	if !IsTerminal(c.Stdout) {
		return text
	}
	return display.Text(text)
}

// Shorten shortens text to at most n characters.
func Shorten(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}
