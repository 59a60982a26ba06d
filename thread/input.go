package thread

import (
	"bytes"
	"slices"

	"mailroom"
)

// maxInputText is the size in bytes of the longest text that is kept in the row of a run.
const maxInputText = 512

// inputText returns the InputText of a run that the submit creates.
func (in *Submit) inputText() string {
	if len(in.Messages) != 1 || in.Sender != in.Origin.Sender {
		return ""
	}
	m := &in.Messages[0]
	if m.Role != mailroom.RoleUser || m.Visibility != mailroom.VisibleAll || len(m.Parts) != 1 {
		return ""
	}
	p := &m.Parts[0]
	plain := p.Type == "text" && len(p.Data) == 0 && p.URI == "" && p.MimeType == "" && p.Name == ""
	if !plain || len(p.Text) > maxInputText {
		return ""
	}
	return p.Text
}

// messages are the messages that a transaction has submitted, or has claimed with the row of their run.
type messages []mailroom.Message

// at returns the message of an entry, or nil.
func (m messages) at(seq int64) *mailroom.Message {
	i := slices.IndexFunc(m, func(known mailroom.Message) bool { return known.Seq == seq })
	if i < 0 {
		return nil
	}
	return &m[i]
}

// takeInputText moves the input of r from its row to m.
func (m *messages) takeInputText(r *mailroom.Run) {
	if r.InputText == "" {
		return
	}
	// An older version keeps the text when it changes the inputs.
	if len(r.Inputs) == 1 && r.Inputs[0].Seq == r.FirstSeq && m.at(r.FirstSeq) == nil {
		*m = append(*m, mailroom.Message{
			ID: r.Inputs[0].Message, Thread: r.Thread, Seq: r.FirstSeq,
			Role: mailroom.RoleUser, Sender: r.Origin.Sender, Text: r.InputText, Parts: mailroom.Text(r.InputText),
			Visibility: mailroom.VisibleAll, Run: r.ID, State: mailroom.MessageAccepted, CreatedAt: r.CreatedAt,
		})
	}
	r.InputText = ""
}

// Input returns the messages that started r, if all were submitted in this transaction or were in the
// rows of the runs that it claimed. It returns nil if they must be read from the log.
func (t *State) Input(r *mailroom.Run) []mailroom.Message {
	var input []mailroom.Message
	for _, in := range r.Inputs {
		if in.Retracted {
			continue
		}
		known := t.known.at(in.Seq)
		if known == nil {
			return nil
		}
		m := *known
		m.Parts = slices.Clone(m.Parts)
		for j := range m.Parts {
			m.Parts[j].Data = bytes.Clone(m.Parts[j].Data) // the submitter owns the original
		}
		input = append(input, m)
	}
	return input
}
