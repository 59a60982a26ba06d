package board

import (
	"strings"

	"mailroom/issues/workflow"
)

// loadWorkflow reads the file with the template again if it changed. It logs what in it has no effect, reports a fault
// once, and returns it only if there is no earlier template to use.
func (r *receiver) loadWorkflow() error {
	if r.options.Workflow == nil {
		return nil
	}
	now, err := r.options.Workflow.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != r.faulty && err != nil {
		r.host.ReportError(err)
	}
	r.faulty = fault
	if now == nil {
		return err
	}
	if now != r.noted {
		for _, note := range now.Notes {
			r.host.Log().Warn("workflow of the board: no effect", "note", note)
		}
	}
	r.noted = now
	return nil
}

// prompt returns the text for the agent of an issue: the prompt of the template, or else the issue itself. generation
// is the number of earlier runs of the issue.
func (r *receiver) prompt(it Issue, generation int) (string, error) {
	r.mu.Lock()
	template := r.noted
	r.mu.Unlock()
	usual := issueText(it, r.agentOf(it))
	if template == nil {
		return usual, nil
	}
	text, err := template.Prompt(workflowIssue(it), generation)
	if err != nil || strings.TrimSpace(text) == "" {
		return usual, err
	}
	return truncate(text + "\n\n" + claimText("Issue "+oneLine(it.Name), r.agentOf(it)) + "\n"), nil
}

// workflowIssue returns an issue as templates know it.
func workflowIssue(it Issue) workflow.Issue {
	out := workflow.Issue{ID: it.ID, NativeRef: it.Native, Identifier: it.Name, Title: it.Title, Description: it.Body,
		State: it.Status, URL: it.URL, Labels: it.Labels, CreatedAt: it.CreatedAt, UpdatedAt: it.UpdatedAt,
		Dispatchable: true}
	const lowest = 4
	out.Priority = min(it.Priority+1, lowest)
	if len(it.Assignees) > 0 {
		out.Assignee = it.Assignees[0]
	}
	if at := strings.LastIndexByte(it.Name, '#'); at >= 0 {
		out.Identifier = "GH-" + it.Name[at+1:] // as Symphony names issues of GitHub
	}
	return out
}
