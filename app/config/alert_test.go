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
	refused(t, two+one,
		"f.toml:1: targets.two: target one has the kind push already, and browsers subscribe to one target; remove one of them")
}

// TestThePlaceOfATargetChangesWithItsAddress compares a target with others of its name.
func TestThePlaceOfATargetChangesWithItsAddress(t *testing.T) {
	place := func(settings string) string {
		t.Helper()
		c, err := parse("a.toml", []byte("[targets.phone]\n"+settings))
		if err != nil {
			t.Fatal(err)
		}
		return c.Targets["phone"].Place()
	}
	const ntfy = "kind = \"ntfy\"\ntopic = \"a\"\n"
	was := place(ntfy)
	for what, settings := range map[string]string{
		"the same": ntfy, "a default that is written out": ntfy + "url = \"https://ntfy.sh\"\n", "a secret": ntfy +
			"token_env = \"A\"\n", "who may deliver": ntfy + "tokens = [\"ann\"]\n",
	} {
		if got := place(settings); got != was {
			t.Errorf("%s: the place changed from %s to %s", what, was, got)
		}
	}
	for what, settings := range map[string]string{
		"a topic": "kind = \"ntfy\"\ntopic = \"b\"\n", "a server": ntfy + "url = \"https://ntfy.example.org\"\n",
		"a kind": "kind = \"webhook\"\nurl = \"https://ntfy.sh\"\ntoken_env = \"A\"\n",
	} {
		if got := place(settings); got == was {
			t.Errorf("%s: the place is still %s", what, was)
		}
	}
}
