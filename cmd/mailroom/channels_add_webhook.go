package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/channel/webhook"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/cmd/mailroom/internal/datadir"
)

// webhookFlags is a program that is to be added.
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
		Short: "Connect a program that can POST to an agent",
		Long: `Connect a program that can POST to an agent.

What the program says it posts to this server, signed with a secret that both have; what
it is told is posted to --url, signed with the same. Without --url replies are in the log
of the server only. A secret is made, unless --token-file has one, and goes into a file
of the data folder that only its owner may read; a table [channels.NAME] is added to
mailroom.toml there. A server that is running has it once it is started again.

Who may talk: whoever a signed request names, unless the table says anybody = false.`,
		Example: `  mailroom channels add webhook --agent codex --url https://app.example.org/agent
  mailroom channels add webhook --name ci --url http://10.1.2.3:9000/ --insecure --allow 10.0.0.0/8`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.name, "name", webhook.Kind, "name of the channel, which is in the address that is posted to")
	flags.StringVar(&a.agent, "agent", "", "agent that reads what is said")
	flags.StringVar(&a.url, "url", "", "address that messages are posted to")
	flags.StringArrayVar(&a.allow, "allow", nil, "network or address that --url may be in, beside public ones; may be repeated")
	flags.BoolVar(&a.insecure, "insecure", false, "let --url be of http")
	flags.BoolVar(&a.edits, "edits", false, "the program can change messages that it has got")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the secret already; it is read there, and not copied")
	cmd.RunE = func(*cobra.Command, []string) error { return m.addWebhook(a) }
	return cmd
}

// addWebhook makes what is missing, and writes.
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
	c, err := config.Parse(x.dir.Config(), x.after)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	if err := x.write(); err != nil {
		return err
	}
	m.infof("the secret is in %s", x.file)
	m.printChannelAdded(x.dir, a.name)
	m.infof("this says something to %s there, from a shell on this machine; nobody else can without the secret:\n", x.flags.agent)
	m.infof("%s", curlExample(serverURL(x.dir, c), a.name, x.file, webhook.IsBase64(x.token)))
	if a.url == "" {
		m.infof("no url is set: replies are in the log, and sent nowhere")
	}
	return nil
}

// settings are the lines of the table that are a webhook's.
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

// serverURL is the address of the server: where it is, or will be as far as that is known.
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

// curlExample is a request that a shell signs and sends. It names the file of the secret,
// and not the secret; coded is whether that is in Base64.
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
