package api

import "time"

// Amounts are quantities of what runs use. Absent: 0.
type Amounts struct {
	USD    float64 `json:"usd,omitempty" doc:"US dollars, exact to a millionth."`
	Tokens int64   `json:"tokens,omitempty" doc:"Read and written by models."`
	Turns  int64   `json:"turns,omitempty" doc:"Calls of models."`
}

// PeriodBudget is the budget of an agent, a token or a thread, in the day or month that has begun, or in the thread's
// life.
type PeriodBudget struct {
	Kind     string    `json:"kind" enum:"agent,owner,thread" doc:"What has the budget: an agent, a token as the owner of threads, or a thread."`
	Name     string    `json:"name" doc:"Name of the agent or token, or id of the thread."`
	Period   string    `json:"period" enum:"day,month,life" doc:"How long it lasts; life: as long as its thread."`
	Begin    time.Time `json:"begin" doc:"When the day or month began, or the budget of a life was set."`
	End      time.Time `json:"end" doc:"When the next one begins, with the whole budget; of a life the year 9999."`
	Zone     string    `json:"zone" doc:"Time zone in which days and months begin."`
	Budget   Amounts   `json:"budget" doc:"What may be used. Without a member, that is not bounded."`
	Raised   Amounts   `json:"raised" doc:"What people added until the end."`
	Used     Amounts   `json:"used" doc:"What was used, also of what is not bounded."`
	Left     Amounts   `json:"left" doc:"What is left of each bound."`
	State    string    `json:"state" enum:"open,low,spent" doc:"low: 80 % of a bound are used. spent: a bound is reached, and nothing starts."`
	Question string    `json:"question,omitempty" doc:"Id of the ticket that asks whether to raise it. Absent: none is open."`
	Text     string    `json:"text" doc:"The budget in words." example:"5.00 usd a day"`
}

// RaiseBudget adds to a budget.
type RaiseBudget struct {
	Kind   string `json:"kind" enum:"agent,owner,thread" doc:"What has the budget."`
	Name   string `json:"name" minLength:"1" maxLength:"200" example:"coder" doc:"Name of the agent or token, or id of the thread."`
	Period string `json:"period" enum:"day,month,life" doc:"Which of its budgets."`
	By     string `json:"by" minLength:"1" maxLength:"200" example:"5usd" doc:"What to add until the end of the period."`
}
