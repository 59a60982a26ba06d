package node

import (
	"log/slog"

	"mailroom/app/config"
	"mailroom/channel/webhook"
	"mailroom/internal/version"
	"mailroom/protocol/agentmail"
	"mailroom/protocol/mcp"
	"mailroom/server"
)

// protocols returns the protocols that the server mounts beside its API. They log errors to log.
func protocols(hooks *webhook.Hooks, log *slog.Logger) map[string]server.Protocol {
	all := map[string]server.Protocol{"POST /mcp": {
		Via: "mcp", Query: []string{mcp.ThreadParam}, Headers: mcp.Headers(), Parameters: map[string]string{
			mcp.ThreadParam: "Id of the thread that is the inbox of the tools. Absent: inbox. Its first use creates it.",
		},
		Summary: "The tools of the Model Context Protocol, over streamable HTTP",
		Serve:   mcp.Handler(version.Read().Version, log),
	}}
	for _, r := range agentmail.Routes() {
		all[r.Pattern] = server.Protocol{
			Via: "agentmail", Name: r.Name, Headers: []string{agentmail.ProjectHeader}, Summary: r.Summary,
			Status: r.Status, Public: r.Open, Serve: r.Serve, Parameters: agentmail.Parameters(),
		}
	}
	all[webhook.Route] = hooks.Protocol()
	return all
}

// newHooks returns the receiver of the requests for all webhook channels.
func newHooks(c *config.Config) *webhook.Hooks {
	hooks := webhook.NewHooks()
	for name, ch := range c.Channels {
		if o, is := ch.Settings.Options.(*webhook.Options); is {
			hooks.Expect(name)
			o.Hooks = hooks
		}
	}
	return hooks
}
