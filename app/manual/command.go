package manual

import (
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/docs"
	"mailroom/internal/version"
)

// Commands returns the command that writes the manual.
func Commands(con *command.Console) []*cobra.Command {
	var base, shots string
	cmd := &cobra.Command{
		Use:   "docs FOLDER",
		Short: "Write the manual of this version as web pages",
		Long: `Write the manual of this version as web pages into a folder, which is created. The
pages need no server and no network: open index.html there. A server shows the same
pages at /docs/.

Exit codes: 0 written, 1 cannot write, 2 invalid usage.`,
		Example: `  mailroom docs ./manual
  mailroom docs --base https://docs.example.org ./manual`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&base, "base", "", "address of the site, for its links in llms.txt (default none)")
	cmd.Flags().StringVar(&shots, "pictures", "", "folder with pictures of the pages, which are otherwise left out")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		began := time.Now()
		o := FromCode(cmd.Root())
		o.Base = strings.TrimRight(base, "/")
		if shots != "" {
			o.Shots = os.DirFS(shots)
		}
		m, err := New(o)
		if err != nil {
			return command.Errorf(command.ExitFailed, "", "%w", err)
		}
		out, err := m.Write(args[0])
		if err != nil {
			return command.Errorf(command.ExitFailed, "", "%w", err)
		}
		return con.Printf("%s: %d pages, %d files with %s, in %s\n", args[0], out.Pages, out.Files,
			humanize.IBytes(uint64(out.Bytes)), time.Since(began).Round(time.Millisecond))
	}
	return []*cobra.Command{cmd}
}

// FromCode returns the options of the manual of this program, whose command is root.
func FromCode(root *cobra.Command) Options {
	return Options{
		Files: docs.Files, Generated: generated(root), Version: version.Read().Version,
		API: map[string]func() ([]byte, error){
			apiPath: apiPage, "openapi.json": func() ([]byte, error) { return ask("/openapi.json") },
		},
	}
}
