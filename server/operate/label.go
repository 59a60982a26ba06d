package operate

import (
	"context"
	"strings"
	"time"

	"mailroom/api"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// sumsByLabel adds up the ended runs of all owners by the value of the label.
func (h *StatsHandlers) sumsByLabel(ctx context.Context, in *sumsInput) (*body[api.Sums], error) {
	switch {
	case h.label == "":
		return nil, request.Invalid("query.by", "needs stats_label in the configuration, which is not set", in.By)
	case in.Step != "" && in.Step != "day":
		return nil, request.Invalid("query.step", "is not day: a label is summed up by day", in.Step)
	}
	q, err := periods("day", in.From, in.To, time.Now().UTC(), maxSummedPeriods)
	if err != nil {
		return nil, err
	}
	out := h.noSums("day", q)
	err = h.find.View(ctx, func(rd store.Reader) error {
		keys, err := store.LabelKeys(rd, h.label)
		if err != nil {
			return err
		}
		q.Of = []string{""}
		all, err := rd.Count(store.CountQuery{Summaries: &q})
		if err != nil || len(keys) == 0 {
			addSums(&out, q, all.Summaries, nil)
			return err
		}
		values := q
		values.Step, values.Of = store.StepLabelDay, keys
		rows, err := rd.Count(store.CountQuery{Summaries: &values})
		if err != nil {
			return err
		}
		last, err := lastEnds(rd, keys, []time.Duration{store.StepLabelDay})
		q.Of = append(q.Of, keys...)
		addSums(&out, q, append(all.Summaries, rows.Summaries...), last)
		return err
	})
	for i, item := range out.Items {
		out.Items[i].Name = strings.TrimPrefix(item.Name, store.LabelKey(h.label, ""))
	}
	return &body[api.Sums]{out}, err
}
