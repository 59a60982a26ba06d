package tracker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// many returns a file with n issues of realistic size.
func many(n int) string {
	t := New()
	at := time.Date(2025, 1, 1, 0, 0, 0, 123456789, time.UTC)
	for i := range n {
		it := &Issue{
			ID: fmt.Sprintf("proj-%05d", i), Title: fmt.Sprintf("Issue number %d of many", i),
			Description: strings.Repeat("Some words about it. ", 12),
			Status:      StatusOpen, Priority: i % 5, Type: "task", CreatedAt: at,
			UpdatedAt: at.Add(time.Duration(i) * time.Second), Labels: []string{"one", "two"},
		}
		if i > 0 {
			it.Dependencies = []Dependency{{On: fmt.Sprintf("proj-%05d", i/2), Type: DependencyBlocks, CreatedAt: at,
				CreatedBy: "ann"}}
		}
		t.put(it)
	}
	return t.Text()
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		text := many(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if t, invalid := Parse(text); len(t.issues.order) != n || len(invalid) > 0 {
					b.Fatal("no issues were read")
				}
			}
		})
	}
}

func BenchmarkUpdate(b *testing.B) {
	text := many(10_000)
	for b.Loop() {
		t, _ := Parse(text)
		if _, err := t.Update("proj-00007", Signature{"ann", time.Now()}, func(it *Issue) error { it.Priority = 1; return nil }); err != nil {
			b.Fatal(err)
		}
		if len(t.Text()) == 0 {
			b.Fatal("no change was written")
		}
	}
}

func BenchmarkReady(b *testing.B) {
	t, _ := Parse(many(10_000))
	for b.Loop() {
		if len(t.Ready(Filter{}, OrderHybrid, time.Now())) != 1 {
			b.Fatal("no issue is ready")
		}
	}
}
