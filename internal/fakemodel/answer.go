package fakemodel

import (
	"encoding/json"
	"fmt"
)

// Token usage that every answer reports.
const (
	InputTokens  = 100
	CachedTokens = 40
	OutputTokens = 7
)

// responses writes an answer of the OpenAI Responses API.
func (o *stream) responses(a Answer) {
	o.writeHeader()
	id := fmt.Sprintf("resp_%d", o.id)
	o.event("response.created", map[string]any{"response": map[string]any{"id": id}})
	index := 0
	if a.Reasoning != "" {
		o.event("response.output_item.done", map[string]any{"output_index": index, "item": map[string]any{
			"type": "reasoning", "id": fmt.Sprintf("rs_%d", o.id), "encrypted_content": "c2VhbGVk",
			"summary": []any{map[string]any{"type": "summary_text", "text": a.Reasoning}},
		}})
		index++
	}
	if len(a.Text) > 0 {
		o.responsesText(a, index)
		index++
	}
	if a.Hold != nil && !o.wait(a.Hold) {
		return
	}
	for n, c := range a.Calls {
		item := map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", o.id, n),
			"call_id": c.id("call", o.id, n), "name": c.Name}
		if c.Namespace != "" {
			item["namespace"] = c.Namespace
		}
		if c.Custom {
			item["type"], item["input"] = "custom_tool_call", c.Input
		} else {
			item["arguments"] = encode(c.Input)
		}
		o.event("response.output_item.done", map[string]any{"output_index": index, "item": item})
		index++
	}
	if !o.finish(a) {
		return
	}
	o.event("response.completed", map[string]any{"response": map[string]any{
		"id": id,
		"usage": map[string]any{
			"input_tokens": InputTokens, "input_tokens_details": map[string]any{"cached_tokens": CachedTokens},
			"output_tokens": OutputTokens, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
			"total_tokens": InputTokens + OutputTokens,
		},
	}})
}

func (o *stream) responsesText(a Answer, index int) {
	id := fmt.Sprintf("msg_%d", o.id)
	message := func(text string) map[string]any {
		return map[string]any{"output_index": index, "item": map[string]any{
			"type": "message", "role": "assistant", "id": id,
			"content": []any{map[string]any{"type": "output_text", "text": text}},
		}}
	}
	o.event("response.output_item.added", message(""))
	for _, piece := range a.Text {
		o.event("response.output_text.delta", map[string]any{
			"item_id": id, "output_index": index, "content_index": 0, "delta": piece,
		})
	}
	// A text that hangs, or that is held until the client has left, never ends.
	if a.Hold != nil && !o.wait(a.Hold) || a.Hang && len(a.Calls) == 0 {
		return
	}
	o.event("response.output_item.done", message(join(a.Text)))
}

// messages writes an answer of the Anthropic Messages API.
func (o *stream) messages(a Answer) {
	o.writeHeader()
	o.event("message_start", map[string]any{"message": map[string]any{
		"id": fmt.Sprintf("msg_%d", o.id), "type": "message", "role": "assistant", "model": o.model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": InputTokens - CachedTokens, "cache_read_input_tokens": CachedTokens,
			"cache_creation_input_tokens": 0, "output_tokens": 1},
	}})
	index := 0
	begin := func(block map[string]any) {
		o.event("content_block_start", map[string]any{"index": index, "content_block": block})
	}
	delta := func(d map[string]any) {
		o.event("content_block_delta", map[string]any{"index": index, "delta": d})
	}
	end := func() { o.event("content_block_stop", map[string]any{"index": index}); index++ }
	if a.Reasoning != "" {
		begin(map[string]any{"type": "thinking", "thinking": "", "signature": ""})
		delta(map[string]any{"type": "thinking_delta", "thinking": a.Reasoning})
		delta(map[string]any{"type": "signature_delta", "signature": "c2VhbGVk"})
		end()
	}
	if len(a.Text) > 0 {
		begin(map[string]any{"type": "text", "text": ""})
		for _, piece := range a.Text {
			delta(map[string]any{"type": "text_delta", "text": piece})
		}
		if a.Hold != nil && !o.wait(a.Hold) {
			return
		}
		if !a.Hang || len(a.Calls) > 0 { // a text that hangs never ends
			end()
		}
	}
	if a.Hold != nil && !o.wait(a.Hold) {
		return
	}
	reason := "end_turn"
	for n, c := range a.Calls {
		begin(map[string]any{"type": "tool_use", "id": c.id("toolu", o.id, n), "name": c.Name, "input": map[string]any{}})
		delta(map[string]any{"type": "input_json_delta", "partial_json": encode(c.Input)})
		end()
		reason = "tool_use"
	}
	if !o.finish(a) {
		return
	}
	o.event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": OutputTokens},
	})
	o.event("message_stop", map[string]any{})
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode tool input: %v", err)) // Call.Input of the test cannot be encoded as JSON
	}
	return string(data)
}
