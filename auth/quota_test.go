package auth_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"mailroom"
	"mailroom/auth"
)

func TestAQuotaRefusesUseAboveIt(t *testing.T) {
	type use = auth.Use
	for _, c := range []struct {
		name      string
		quotas    auth.Quotas
		have, add use
		want      string // in the message; "": admitted
	}{
		{"none", nil, use{Threads: 1 << 40}, use{Threads: 1}, ""},
		{"no bound", auth.Quotas{"threads": 0}, use{Threads: 1 << 40}, use{Threads: 1}, ""},
		{"room for one", auth.Quotas{"threads": 3}, use{Threads: 2}, use{Threads: 1}, ""},
		{"all there are", auth.Quotas{"threads": 3}, use{Threads: 3}, use{Threads: 1}, "ann has 3 of 3 threads"},
		{"more than there may be", auth.Quotas{"threads": 3}, use{Threads: 9}, use{Threads: 1}, "ann has 9 of 3 threads"},
		{"nothing more", auth.Quotas{"threads": 3}, use{Threads: 9}, use{}, ""},
		{"bytes that do not fit", auth.Quotas{"bytes": 100}, use{Bytes: 60}, use{Bytes: 41}, "60 of 100 bytes"},
		{"another quota is full", auth.Quotas{"threads": 1, "bytes": 100}, use{Threads: 1, Bytes: 1}, use{Bytes: 9}, ""},
		{"unread notifications", auth.Quotas{"notifications": 5}, use{Notifications: 4}, use{Notifications: 2},
			"ann has 4 of 5 unread notifications, and this one has 2 recipients: wait until some are read"},
		{"a worker", auth.Quotas{"workers": 1}, use{Workers: 1}, use{Workers: 1}, "1 of 1 workers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.quotas.CheckUse("ann", c.have, c.add)
			if c.want == "" {
				if err != nil {
					t.Errorf("CheckUse() = %v, want no error", err)
				}
				return
			}
			e, ok := errors.AsType[*mailroom.Error](err)
			if !ok || e.Code != mailroom.CodeQuotaExceeded || !strings.Contains(e.Message, c.want) || len(e.Fields) != 1 {
				t.Errorf("got %#v, want %q", err, c.want)
			}
		})
	}
}

func TestQuotasOfATokenGoBeforeTheDefaults(t *testing.T) {
	got := auth.Quotas{"threads": 0, "bytes": 7}.WithDefaults(auth.Quotas{"threads": 5, "workers": 2})
	if want := (auth.Quotas{"threads": 0, "bytes": 7, "workers": 2, "streams": 0, "notifications": 0}); !maps.Equal(got,
		want) {
		t.Errorf("got quotas %v, want %v", got, want)
	}
	for name, q := range map[string]auth.Quotas{"another name": {"cpus": 1}, "below 0": {"threads": -1}} {
		if err := q.Check(); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
