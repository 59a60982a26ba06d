package cli

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"rsc.io/qr"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func openCommand(con *command.Console) *cobra.Command {
	var scopes []string
	noBrowser := false
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the console in a browser, signed in",
		Long: `Print a link that signs a browser in, once and within five minutes, and open it in the
browser of this machine. In a terminal, also print it as a QR code for a phone.

The link uses the setting url of the server. Without it, the link works where this
command's address of the server does. The session lasts 30 days; mailroom token list
shows it, mailroom token revoke ends it.`,
		Example: `  mailroom open
  mailroom open --no-browser --scope read,decide`,
		Args: cobra.NoArgs,
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "scopes of the session (default: those of your token)")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the link")
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		made, err := c.Accounts().CreateLink(cmd.Context(), api.NewLink{Scopes: permissions(scopes)})
		if err != nil {
			return err
		}
		base := con.Server
		if made.URL != nil {
			base = *made.URL
		}
		link := signInLink(base, made.Secret)
		if *output == command.FormatJSON {
			return con.PrintJSON(map[string]any{"url": link, "expires_at": made.ExpiresAt})
		}
		return showLink(con, base, link, made.ExpiresAt, !noBrowser)
	})
}

// signInLink returns the link with which a browser signs in. The secret stands behind #. Browsers do not send that
// part of a link to a server, so the secret is in no log of requests and no preview of the link.
func signInLink(base, secret string) string {
	return strings.TrimSuffix(base, "/") + "/#sign-in=" + secret
}

func showLink(con *command.Console, base, link string, expires time.Time, browse bool) error {
	con.Infof("signs a browser in, once, until %s:", con.When(&expires))
	if err := con.Printf("%s\n", link); err != nil || !command.IsTerminal(con.Stdout) {
		return err
	}
	if isLoopback(base) {
		con.Infof("only browsers of this machine reach this address; for a phone, set url to an address that it reaches,\n" +
			"such as that of a proxy or of a private network (see docs/guides/behind-a-proxy.md)")
	} else if code, err := qr.Encode(link, qr.L); err == nil { // a link too long for a code is printed only
		con.Infof("%s", drawCode(code))
	}
	if !browse {
		return nil
	}
	if err := openBrowser(con, link, expires); err != nil {
		con.Infof("no browser was opened (%v); open the link yourself", err)
	}
	return nil
}

// isLoopback reports whether an address is reachable only from this machine.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// drawCode draws a QR code with two modules per character, light on dark, with the border of four modules
// that readers need.
func drawCode(code *qr.Code) string {
	const border = 4
	var b strings.Builder
	for y := -border; y < code.Size+border; y += 2 {
		for x := -border; x < code.Size+border; x++ {
			upper, lower := !code.Black(x, y), !code.Black(x, y+1)
			switch {
			case upper && lower:
				b.WriteString("█")
			case upper:
				b.WriteString("▀")
			case lower:
				b.WriteString("▄")
			default:
				b.WriteString(" ")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// openBrowser opens a link. Other users of the machine can read the arguments of a process, so the link is not an
// argument: the browser opens a file that only this user can read, and the file redirects to the link.
func openBrowser(con *command.Console, link string, expires time.Time) error {
	words := browserCommand(runtime.GOOS, con.Env)
	if words == nil {
		return fmt.Errorf("no desktop")
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "mailroom")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "open.html") // replaced each time; its link has expired by then or is used
	page := fmt.Sprintf("<!doctype html><meta charset=utf-8>"+
		"<meta name=referrer content=no-referrer><title>Mailroom</title>"+
		"<meta http-equiv=refresh content=\"0; url=%s\"><p><a href=\"%s\">Open Mailroom</a> (until %s)",
		link, link, expires.Format(time.TimeOnly))
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return err
	}
	return exec.Command(words[0], append(words[1:], file)...).Run()
}

// browserCommand returns the command of an operating system that opens a file, or nil if there is no desktop.
func browserCommand(system string, env func(string) string) []string {
	switch {
	case system == "darwin":
		return []string{"open"}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != "":
		return []string{"xdg-open"}
	}
	return nil
}
