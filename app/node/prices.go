package node

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/internal/display"
	"mailroom/internal/price"
)

// priceOutput is a price in JSON, in US dollars for a million tokens.
type priceOutput struct {
	Model      string  `json:"model"`
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	Source     string  `json:"source"`
}

func pricesCommand(con *command.Console) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "prices [MODEL]",
		Short: "Print what the server computes costs from",
		Long: `Print the prices of models, in US dollars for a million tokens. The server computes from them what
runs cost whose agents report tokens and no dollars. [prices."MODEL"] in mailroom.toml sets further
prices, or others.`,
		Example: "  mailroom prices\n  mailroom prices gpt-5.1-codex",
		Args:    cobra.MaximumNArgs(1),
	}
	output := command.FormatFlag(cmd)
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default mailroom.toml in the data folder)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
		c, err := loadConfig(con, dir, file)
		if err != nil {
			return err
		}
		rows, err := pricesOf(c.Prices(), strings.Join(args, ""))
		if err != nil {
			return err
		}
		return printPrices(con, rows, *output)
	}
	return cmd
}

// pricesOf returns the price of a model, or all prices if model is "".
func pricesOf(list *price.List, model string) ([]price.Row, error) {
	if model == "" {
		return list.Rows(), nil
	}
	if r, ok := list.Find(model); ok {
		return []price.Row{r}, nil
	}
	var names []string
	for _, r := range list.Rows() {
		names = append(names, r.Model)
	}
	hint := fmt.Sprintf("add [prices.%q] with input and output to mailroom.toml", model)
	if near := display.Suggest(model, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? Otherwise %s", near, hint)
	}
	return nil, command.Errorf(command.ExitUsage, hint, "no price of the model %q", model)
}

func printPrices(con *command.Console, all []price.Row, output command.Format) error {
	source := func(r price.Row) string {
		if r.Own {
			return "mailroom.toml"
		}
		return price.Source
	}
	usd := func(micro int64) float64 { return mailroom.Amounts{MicroUSD: micro}.USD() }
	if output == command.FormatJSON {
		out := []priceOutput{}
		for _, r := range all {
			out = append(out, priceOutput{r.Model, usd(r.Input), usd(r.Output), usd(r.CacheRead), usd(r.CacheWrite), source(r)})
		}
		return con.PrintJSON(out)
	}
	text := func(micro int64) string { return strconv.FormatFloat(usd(micro), 'f', -1, 64) }
	rows := [][]string{{"MODEL", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "SOURCE"}}
	for _, r := range all {
		rows = append(rows,
			[]string{r.Model, text(r.Input), text(r.Output), text(r.CacheRead), text(r.CacheWrite), source(r)})
	}
	return con.PrintTable(rows)
}
