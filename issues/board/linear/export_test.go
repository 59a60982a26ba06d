package linear_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/channel/platformtest"
	"mailroom/issues/board/boardtest"
	"mailroom/issues/board/linear"
	"mailroom/issues/tracker"
)

func remote(f *boardtest.Linear) tracker.Remote {
	return tracker.Remote{Place: "r", API: "http://" + f.Addr, Token: boardtest.LinearToken}
}

// TestAnExportReadsIssuesWhole has an issue with more comments, relations and labels than a page shows, and a limit
// that ends soon.
func TestAnExportReadsIssuesWhole(t *testing.T) {
	f := boardtest.NewLinear(t, 30)
	f.Update(func() { f.Pages = 7 })
	blocker := f.Issue("R-2")
	f.Edit("R-1", func(it boardtest.Object) {
		var comments, relations, labels []boardtest.Object
		for i := range 120 {
			comments = append(comments, boardtest.Object{"id": fmt.Sprint("c", i), "body": fmt.Sprint("text ", i),
				"createdAt": time.Unix(int64(i), 0).UTC().Format(time.RFC3339), "user": person("bob")})
		}
		for range 20 {
			relations, labels = append(relations, blocks(blocker)), append(labels, boardtest.Object{"name": "l"})
		}
		it["comments"], it["inverseRelations"] = comments, relations
		it["labels"] = append(labels, boardtest.Object{"name": "bug"})
	})
	f.Fail("issues", platformtest.Fault{Code: "RATELIMITED", Status: 400, RetryAfter: 0.01})
	all, err := linear.Export(t.Context(), remote(f))
	if err != nil || len(all) != 30 {
		t.Fatalf("%d issues, %v", len(all), err)
	}
	for _, o := range all {
		if o.Title != "Do 1" {
			continue
		}
		if len(o.Comments) != 120 || o.Comments[119].Text != "text 119" || len(o.Dependencies) != 20 || o.Type != "bug" {
			t.Errorf("%d comments, %d dependencies, type %s", len(o.Comments), len(o.Dependencies), o.Type)
		}
	}
	if got := f.Cost("issues"); got > 1500 {
		t.Errorf("a page costs %v points", got)
	}
	f.Break("R-3", "assignee")
	if _, err := linear.Export(t.Context(), remote(f)); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("a field that cannot be read: %v", err)
	}
}

func TestPlacesOfLinear(t *testing.T) {
	f := boardtest.NewLinear(t, 1)
	for place, want := range map[string]string{"R": "", "r": "", "b1c2d3e4": `the project "b1c2d3e4"`, "roof-b1c2": "",
		"https://linear.app/acme/team/R/all": "", "https://linear.app/acme/project/roof-b1c2/overview": "",
		"https://linear.app/acme": "names no team or project", "Q": `the team "Q" does not exist`} {
		r := remote(f)
		r.Place = place
		all, err := linear.Export(t.Context(), r)
		if want == "" && (err != nil || len(all) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d issues, %v, want %q", place, len(all), err, want)
		}
	}
}

// TestAnExportReadsWhatHasChanged leaves out what is older than the last export, and has what was closed since.
func TestAnExportReadsWhatHasChanged(t *testing.T) {
	f := boardtest.NewLinear(t, 3)
	last := time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond)
	f.Edit("R-2", state("Done"))
	f.Touch("R-1", last.Add(-time.Hour))
	f.Touch("R-2", last)
	f.Touch("R-3", last.Add(time.Second))
	r := remote(f)
	r.Since = last
	r.Seen = map[string]time.Time{"linear:" + f.ID("R-3"): last.Add(time.Second)}
	all, err := linear.Export(t.Context(), r)
	if err != nil || len(all) != 1 || all[0].Title != "Do 2" || all[0].Status != tracker.StatusClosed {
		t.Errorf("%+v, %v", all, err)
	}
}
