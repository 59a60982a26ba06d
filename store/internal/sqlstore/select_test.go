package sqlstore

import (
	"slices"
	"testing"
)

func TestASelectHasItsConditionsAndArgumentsInOrder(t *testing.T) {
	var s Select
	s.Begin("SELECT key FROM (SELECT key FROM run")
	s.Equal("owner", "ada")
	s.Equal("agent", "")
	none := ""
	s.EqualTo("parent", &none)
	s.EqualTo("worker", nil)
	s.Begin(" UNION SELECT key FROM ticket")
	s.Cond("state = ?", "open")
	s.Limit(3)
	s.Begin(")")
	s.ByKey("key", 7, false)
	s.Limit(0)
	text := "SELECT key FROM (SELECT key FROM run WHERE owner = ? AND parent = ?" +
		" UNION SELECT key FROM ticket WHERE state = ? LIMIT ?) WHERE key < ? ORDER BY key DESC"
	if got := s.Text(); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
	numbered := "SELECT key FROM (SELECT key FROM run WHERE owner = $1 AND parent = $2" +
		" UNION SELECT key FROM ticket WHERE state = $3 LIMIT $4) WHERE key < $5 ORDER BY key DESC"
	if got := s.Numbered(); got != numbered {
		t.Errorf("got %q, want %q", got, numbered)
	}
	if want := []any{"ada", "", "open", int64(3), int64(7)}; !slices.Equal(s.Args(), want) {
		t.Errorf("got the arguments %v, want %v", s.Args(), want)
	}
}

func TestAGaugeStopsAtTheRowThatReachesALimit(t *testing.T) {
	for _, c := range []struct {
		gauge Gauge
		rows  int
	}{
		{Gauge{Limit: 3}, 3},
		{Gauge{Budget: 25}, 3},
		{Gauge{Limit: 2, Budget: 25}, 2},
		{Gauge{Budget: 30}, 4},
	} {
		g, rows := c.gauge, 1
		for g.Add(10) {
			rows++
		}
		if rows != c.rows {
			t.Errorf("%+v: got %d rows of 10 bytes, want %d", c.gauge, rows, c.rows)
		}
	}
}
