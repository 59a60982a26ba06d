package tracker

import (
	"slices"
	"time"
)

// member describes a known member of a line.
type member struct {
	name string
	// read parses the member, or returns an error about its type.
	read func(it *Issue, s *scanner) error
	// write returns the member as JSON, or "" if it is omitted.
	write func(it *Issue) string
	// same reports whether two issues have the same value.
	same func(a, b *Issue) bool
}

// members returns the known members in the order of a new line.
func members() []member {
	return []member{
		requiredMember("id", func(it *Issue) *string { return &it.ID }),
		requiredMember("title", func(it *Issue) *string { return &it.Title }),
		requiredMember("description", func(it *Issue) *string { return &it.Description }),
		textMember("design", func(it *Issue) *string { return &it.Design }),
		textMember("acceptance_criteria", func(it *Issue) *string { return &it.Acceptance }),
		textMember("notes", func(it *Issue) *string { return &it.Notes }),
		requiredMember("status", func(it *Issue) *Status { return &it.Status }),
		{"priority",
			func(it *Issue, s *scanner) error { return readNumber(s, &it.Priority) },
			func(it *Issue) string { return encode(it.Priority) },
			func(a, b *Issue) bool { return a.Priority == b.Priority }},
		requiredMember("issue_type", func(it *Issue) *string { return &it.Type }),
		textMember("assignee", func(it *Issue) *string { return &it.Assignee }),
		{"estimated_minutes",
			func(it *Issue, s *scanner) error {
				it.EstimatedMinutes = nil
				return readJSON(s.value(), &it.EstimatedMinutes)
			},
			func(it *Issue) string { return encodeUnless(it.EstimatedMinutes == nil, it.EstimatedMinutes) },
			func(a, b *Issue) bool {
				x, y := a.EstimatedMinutes, b.EstimatedMinutes
				return x == y || x != nil && y != nil && *x == *y
			}},
		timeMember("created_at", true, func(it *Issue) *time.Time { return &it.CreatedAt }),
		textMember("created_by", func(it *Issue) *string { return &it.CreatedBy }),
		timeMember("updated_at", true, func(it *Issue) *time.Time { return &it.UpdatedAt }),
		timeMember("closed_at", false, func(it *Issue) *time.Time { return &it.ClosedAt }),
		textMember("close_reason", func(it *Issue) *string { return &it.CloseReason }),
		textMember("external_ref", func(it *Issue) *string { return &it.ExternalRef }),
		timeMember("due_at", false, func(it *Issue) *time.Time { return &it.DueAt }),
		timeMember("defer_until", false, func(it *Issue) *time.Time { return &it.DeferUntil }),
		timeMember("deleted_at", false, func(it *Issue) *time.Time { return &it.DeletedAt }),
		textMember("deleted_by", func(it *Issue) *string { return &it.DeletedBy }),
		textMember("delete_reason", func(it *Issue) *string { return &it.DeleteReason }),
		textMember("original_type", func(it *Issue) *string { return &it.OriginalType }),
		{"labels", readLabels,
			func(it *Issue) string { return encodeUnless(len(it.Labels) == 0, it.Labels) },
			func(a, b *Issue) bool { return slices.Equal(a.Labels, b.Labels) }},
		{"dependencies", readDependencies, writeDependencies,
			func(a, b *Issue) bool {
				return slices.EqualFunc(a.Dependencies, b.Dependencies, func(x, y Dependency) bool {
					return x.text(a.ID) == y.text(b.ID)
				})
			}},
		{"comments", readComments, writeComments,
			func(a, b *Issue) bool {
				return slices.EqualFunc(a.Comments, b.Comments, func(x, y Comment) bool { return x.text(a.ID) == y.text(b.ID) })
			}},
	}
}

func requiredMember[T ~string](name string, of func(*Issue) *T) member {
	m := textMember(name, of)
	m.write = func(it *Issue) string { return encodeText(string(*of(it))) }
	return m
}

func textMember[T ~string](name string, of func(*Issue) *T) member {
	return member{name,
		func(it *Issue, s *scanner) error { return readText(s, of(it)) },
		func(it *Issue) string {
			if *of(it) == "" {
				return ""
			}
			return encodeText(string(*of(it)))
		},
		func(a, b *Issue) bool { return *of(a) == *of(b) },
	}
}

func timeMember(name string, always bool, of func(*Issue) *time.Time) member {
	return member{name,
		func(it *Issue, s *scanner) error { return readTime(s, of(it)) },
		func(it *Issue) string { return encodeUnless(!always && of(it).IsZero(), *of(it)) },
		func(a, b *Issue) bool { return of(a).Equal(*of(b)) },
	}
}

func encodeUnless(absent bool, v any) string {
	if absent {
		return ""
	}
	return encode(v)
}
