package config

import "testing"

func TestAnAddressWithAPasswordIsRecognized(t *testing.T) {
	for address, without := range map[string]bool{
		"postgres://mailroom@db.example.org/mailroom":                       true,
		"postgres://mailroom@a.example.org:5432,b.example.org/mailroom":     true,
		"host=/run/a,/run/b user=mailroom":                                  true,
		"postgres://mailroom:secret@a.example.org:5432,b.example.org/m":     false,
		"postgres://mailroom:secret@%2Frun%2Fpostgresql,db.example.org/m":   false,
		"postgres://mailroom@db.example.org/m?password=secret":              false,
		"host=/run/a user=mailroom password=secret target_session_attrs=rw": false,
	} {
		if got := withoutPassword(address); got != without {
			t.Errorf("%s: got %t, want %t", address, got, without)
		}
	}
}
