package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func auditCommand(con *command.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List what operators did, newest first",
		Long: `List what operators did, newest first: who decided, cancelled, paused, signed in, made or
revoked a token, or changed a rule, and from where. It needs a token with the scope admin.
Filter fields: actor, action, object, kind (of the object), thread, from and at. The audit
log has no secrets, and a retention of its own (audit_retention).`,
		Example: `  mailroom audit
  mailroom audit --filter 'at:2026-11-29T01:30:00Z..2026-11-29T02:30:00Z'
  mailroom audit --filter 'action:token.*,sign-in* actor:ann'
  mailroom audit --all -o jsonl > audit.jsonl`,
		Args: cobra.NoArgs,
	}
	return list[api.AuditedAction]{
		fetch: func(c *client.Client, ctx context.Context, q client.ListQuery) (api.Page[api.AuditedAction], error) {
			return c.Sums().Audit(ctx, q)
		},
		header: []string{"WHEN", "ACTOR", "FROM", "ACTION", "OBJECT", "DETAIL"},
		row: func(a api.AuditedAction) []string {
			return []string{con.When(&a.At), cmp.Or(a.Actor, "-"), cmp.Or(a.From, "-"), a.Action, auditObject(a),
				command.Shorten(auditDetail(a.Detail), 60)}
		},
		wide: &table[api.AuditedAction]{
			header: []string{"WHEN", "ACTOR", "KIND", "TOKEN", "FROM", "ACTION", "OBJECT", "THREAD", "DETAIL"},
			row: func(a api.AuditedAction) []string {
				return []string{a.At.UTC().Format(time.RFC3339), cmp.Or(a.Actor, "-"), cmp.Or(a.ActorKind, "-"),
					cmp.Or(a.Token, "-"), cmp.Or(a.From, "-"), a.Action, auditObject(a), cmp.Or(a.Thread, "-"), auditDetail(a.Detail)}
			},
		},
		what: "actions", none: "no actions yet",
	}.command(con, cmd, "")
}

// auditObject formats the object of an action.
func auditObject(a api.AuditedAction) string {
	return strings.TrimSpace(a.ObjectKind + " " + a.Object)
}

// auditDetail formats what an action changed, on one line.
func auditDetail(detail map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(detail)) {
		out = append(out, name+"="+detail[name])
	}
	return cmp.Or(strings.Join(out, " "), "-")
}
