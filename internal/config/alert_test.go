package config

import "testing"

// TestBrowsersHaveOneTarget refuses a second target of kind push, to which no browser could subscribe.
func TestBrowsersHaveOneTarget(t *testing.T) {
	const one = "[targets.one]\nkind = \"push\"\nkey_env = \"A\"\ncontact = \"mailto:ops@example.org\"\n"
	const two = "[targets.two]\nkind = \"push\"\nkey_env = \"B\"\ncontact = \"mailto:ops@example.org\"\n"
	const ntfy = "[targets.zebra]\nkind = \"ntfy\"\ntopic = \"a\"\n[targets.phone]\nkind = \"ntfy\"\ntopic = \"b\"\n"
	if _, err := parse("a.toml", []byte(one+ntfy)); err != nil {
		t.Error(err)
	}
	refused(t, two+one, "f.toml:1: targets.two: target one has the kind push already, and browsers subscribe to one target; remove one of them")
}
