package turn

import "mailroom"

const (
	blockBits = 21
	blockMask = 1<<blockBits - 1
	// firstEvent is the place in a block of the first event of the entry that follows.
	firstEvent = mailroom.MaxText + 1
	// firstAfterText is firstEvent if the reader has a part of the text that the entry ends.
	firstAfterText = mailroom.MaxText + 1<<19
)

// Number returns the number of the position after the entry seq and so many bytes of the message being written, at
// most MaxText. It is the number of the stream's cursor SEQ:BYTES.
func Number(seq int64, bytes int) int64 {
	return seq<<blockBits + int64(min(max(bytes, 0), mailroom.MaxText))
}

// Split returns the position of a number: the entries up to seq, and so many bytes of the message being written. A
// stream that starts there sends at least what follows the event with this number. Numbers below 0 are the start.
func Split(number int64) (seq int64, bytes int) {
	number = max(number, 0)
	seq, rest := number>>blockBits, int(number&blockMask)
	if rest > mailroom.MaxText { // a number within the events of the next entry
		return seq, 0
	}
	return seq, rest
}

// shownAt returns how many bytes a reader with this number has of the message being written. If it has the whole text
// of a message whose other events follow, it returns MaxText.
func shownAt(number int64) int {
	if number&blockMask >= firstAfterText {
		return mailroom.MaxText
	}
	_, bytes := Split(number)
	return bytes
}

// place returns the number of event i of the entry seq, if others follow it. Further events than fit have the last
// number of the block: they are no cursor.
func place(seq int64, i int, textFirst bool) int64 {
	first, room := firstEvent, firstAfterText-firstEvent
	if textFirst {
		first, room = firstAfterText, 1<<blockBits-firstAfterText
	}
	return (seq-1)<<blockBits + int64(first+min(i, room-1))
}
