package webhook

import "testing"

// TestTheAccountNamesTheProgram: a program gives its users their ids.
func TestTheAccountNamesTheProgram(t *testing.T) {
	account := func(url string) string {
		c := &connection{options: Options{URL: url}}
		caps := c.capabilities()
		return caps.Account()
	}
	if one, again, other := account("https://crm.example.org/a"), account("https://crm.example.org/a"), account(
		"https://crm.example.org/b"); one != again || one == other {
		t.Errorf("the accounts of a program are %s and %s, that of another one is %s", one, again, other)
	}
}
