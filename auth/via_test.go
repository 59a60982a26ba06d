package auth_test

import (
	"strings"
	"testing"

	"mailroom"
	"mailroom/auth"
)

func TestATokenCannotLabelItsRunsWithANameOfTheServer(t *testing.T) {
	check := func(via string) error {
		token := auth.Token{Name: "a", Scopes: []auth.Permission{auth.PermissionSubmit}, Terms: auth.Terms{Via: via}}
		return token.Check()
	}
	for _, via := range []string{"", "gateway", "my-gateway.2", strings.Repeat("x", auth.MaxTokenName)} {
		if err := check(via); err != nil {
			t.Errorf("%q: %v", via, err)
		}
	}
	for _, via := range []string{
		"user", "run", "wake", "alert", "mcp", "agentmail", "channel", "channel:tg", "User", "a b", "a\n", "\x00", "\u00e9",
		strings.Repeat("x", auth.MaxTokenName+1),
	} {
		if err := check(via); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%q: got %v", via, err)
		}
	}
}
