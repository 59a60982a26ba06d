package irc

import "testing"

// TestTheAccountNamesTheServer: users of another server may have the same nicks and accounts, and so may the bot.
func TestTheAccountNamesTheServer(t *testing.T) {
	account := func(server string) string {
		c := &connection{options: Options{Server: server, Nick: "Bot"}}
		caps := c.capabilities()
		return caps.Account()
	}
	if one, again, other := account("irc.example.org"), account("irc.example.org"), account(
		"irc.example.net"); one != again || one == other {
		t.Errorf("the accounts of a server are %s and %s, that of another one is %s", one, again, other)
	}
}
