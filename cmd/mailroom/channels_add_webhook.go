package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/channel/webhook"
	"mailroom/internal/config"
	"mailroom/internal/datadir"
	"mailroom/internal/platforms"
)

// webhookFlags are the flags of mailroom channels add webhook.
type webhookFlags struct {
	channelFlags
	url             string
	allow           []string
	insecure, edits bool
}

func (m *Main) addWebhookCommand() *cobra.Command {
	var a webhookFlags
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Connect a program to an agent with webhooks",
		Long: `Connect a program to an agent with webhooks.

The program posts its messages to this server, and the server posts replies to --url.
A shared secret signs both. Without --url, replies are only in the thread's log. The
command generates a secret unless --token-file is given, stores it in a file of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. Restart a running server to load the channel.

Access: every user that a signed request names, unless the table sets anybody = false.`,
		Example: `  mailroom channels add webhook --agent codex --url https://app.example.org/agent
  mailroom channels add webhook --name ci --url http://10.1.2.3:9000/ --insecure --allow 10.0.0.0/8`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", webhook.Kind, "name of the channel, part of its URL on this server")
	flags.StringVar(&a.agent, "agent", "", "agent that handles the messages")
	flags.StringVar(&a.url, "url", "", "URL to post replies to")
	flags.StringArrayVar(&a.allow, "allow", nil, "private network or address that --url may use; may be repeated")
	flags.BoolVar(&a.insecure, "insecure", false, "allow http in --url")
	flags.BoolVar(&a.edits, "edits", false, "the program supports edits of messages")
	flags.StringVar(&a.tokenFile, "token-file", "", "use the secret in this file; the file is not copied")
	cmd.RunE = func(*cobra.Command, []string) error { return m.addWebhook(a) }
	return cmd
}

// addWebhook generates a secret if needed and writes the configuration.
func (m *Main) addWebhook(a webhookFlags) error {
	x, err := m.newChannelWizard(a.channelFlags)
	if err != nil {
		return err
	}
	if x.file = x.dir.ChannelToken(a.name); a.tokenFile == "" {
		x.token = webhook.NewSecret()
	} else if err := x.readSecret(""); err != nil {
		return err
	}
	if err := webhook.CheckSecret(x.token); err != nil {
		return exitErrorf(exitUsage, "nothing was written", "%w", err)
	}
	if _, err := x.buildConfig(webhook.Kind, a.settings()); err != nil {
		return err
	}
	c, err := config.Parse(x.dir.Config(), x.after, platforms.All())
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	if err := x.write(); err != nil {
		return err
	}
	m.infof("the secret is stored in %s", x.file)
	m.printChannelAdded(x.dir, a.name)
	m.infof("to send a test message to %s, run this in a shell on this machine:\n", x.flags.agent)
	m.infof("%s", curlExample(serverURL(x.dir, c), a.name, x.file, webhook.IsBase64(x.token)))
	if a.url == "" {
		m.infof("no --url is set: replies are in the log and are not sent")
	}
	return nil
}

// settings returns the webhook settings as TOML lines.
func (a webhookFlags) settings() (lines string) {
	if a.url != "" {
		lines += fmt.Sprintf("url = %q\n", a.url)
	}
	if a.insecure {
		lines += "insecure = true\n"
	}
	if a.edits {
		lines += "edits = true\n"
	}
	if len(a.allow) > 0 {
		var quoted []string
		for _, network := range a.allow {
			quoted = append(quoted, fmt.Sprintf("%q", network))
		}
		lines += "allow = [" + strings.Join(quoted, ", ") + "]\n"
	}
	return lines
}

// serverURL returns the URL of the running server, else the URL from the configuration.
func serverURL(dir datadir.Dir, c *config.Config) string {
	if at, err := dir.Address(); err == nil {
		return at.URL
	}
	scheme, host := "http", c.Listen
	if c.TLSCert != "" {
		scheme = "https"
	}
	if name, port, err := net.SplitHostPort(c.Listen); err == nil {
		if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
			host = net.JoinHostPort("localhost", port)
		}
	}
	return (&url.URL{Scheme: scheme, Host: host}).String()
}

// curlExample returns a shell command that signs and sends a message. It contains the path
// of the secret's file, not the secret; coded reports whether the secret is Base64.
func curlExample(at, channel, file string, coded bool) string {
	key := `head -n 1 FILE | tr -d '\n'`
	if coded {
		key += ` | sed s/^whsec_// | base64 -d`
	}
	return strings.NewReplacer("FILE", quote(file), "URL", quote(at+"/v1/hooks/"+url.PathEscape(channel))).Replace(
		strings.ReplaceAll(`body='{"room":"test","user":{"id":"me"},"text":"hello"}' id=try-$(date +%s) at=$(date +%s)
key=$(KEY | od -An -v -tx1 | tr -d ' \n')
signature=$(printf %s "$id.$at.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
curl -sS URL -H 'Content-Type: application/json' --data-binary "$body" \
  -H "webhook-id: $id" -H "webhook-timestamp: $at" -H "webhook-signature: v1,$signature"
`, "KEY", key))
}
