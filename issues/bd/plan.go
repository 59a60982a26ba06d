package bd

import (
	"context"
	"strings"

	"mailroom"
	"mailroom/issues/tracker"
)

// createPlan creates the issues of a Markdown file, all or none.
func (m *Main) createPlan(ctx context.Context, name string, dry bool) error {
	text, err := m.inputFile(name, "the plan")
	if err != nil {
		return err
	}
	drafts, err := parsePlan(text)
	if err != nil {
		return err
	}
	made, after, err := m.createAll(ctx, drafts, dry)
	if err != nil {
		return err
	}
	if m.out.json {
		return m.out.printJSON(issuesJSON(after, made, nil))
	}
	for _, it := range made {
		if dry {
			err = m.out.report("This would create: %s (P%d %s)", it.Title, it.Priority, it.Type)
		} else {
			err = m.out.report("Created %s: %s (P%d %s)", it.ID, it.Title, it.Priority, it.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parsePlan parses a Markdown plan. "## Title" starts an issue and "### Section" a field: Priority,
// Type, Assignee, Labels, Dependencies, Description, Design, Acceptance Criteria or Notes. Text
// before the first section is the description.
func parsePlan(text string) (drafts []tracker.NewIssue, err error) {
	var draft *tracker.NewIssue
	section := ""
	parts := map[string]string{}
	end := func() error {
		if draft == nil {
			return nil
		}
		if err := setSections(draft, parts); err != nil {
			return err
		}
		drafts = append(drafts, *draft)
		parts = map[string]string{}
		return nil
	}
	fenced := false // headings in code blocks do not count
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		title, is := strings.CutPrefix(line, "## ")
		name, sub := strings.CutPrefix(line, "### ")
		switch {
		case is && !fenced:
			if err := end(); err != nil {
				return nil, err
			}
			draft, section = &tracker.NewIssue{Issue: tracker.Issue{Title: strings.TrimSpace(title),
				Priority: tracker.PriorityNormal}}, ""
		case draft == nil: // text before the first issue
		case sub && !fenced:
			section = strings.ToLower(strings.TrimSpace(name))
		default:
			parts[section] += line + "\n"
		}
	}
	if err := end(); err != nil {
		return nil, err
	}
	if len(drafts) == 0 {
		return nil, mailroom.Errorf(mailroom.CodeInvalid,
			"the plan has no issues; start each with a heading such as: ## Fix the roof")
	}
	return drafts, nil
}

// setSections sets the fields of an issue from its sections.
func setSections(d *tracker.NewIssue, parts map[string]string) error {
	words := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
	}
	for name, text := range parts {
		text = strings.TrimSpace(text)
		switch name {
		case "":
			d.Description = strings.TrimSpace(text + "\n\n" + d.Description)
		case "description":
			d.Description = strings.TrimSpace(d.Description + "\n\n" + text)
		case "design":
			d.Design = text
		case "acceptance criteria", "acceptance":
			d.Acceptance = text
		case "notes":
			d.Notes = text
		case "assignee":
			d.Assignee = text
		case "type":
			d.Type = text
		case "labels":
			d.Labels = words(text)
		case "dependencies":
			d.Dependencies = dependencies(words(text))
		case "priority":
			p, err := priority(text)
			if err != nil {
				return err
			}
			d.Priority = p
		default:
			return mailroom.Errorf(mailroom.CodeInvalid,
				"unknown section %q of %q; known are Priority, Type, Assignee, Labels, Dependencies, Description, Design, Acceptance Criteria, Notes", name, d.Title)
		}
	}
	return nil
}
