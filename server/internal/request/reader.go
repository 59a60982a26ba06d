package request

import "errors"

// Errors that end a reader of a stream or socket.
var (
	ErrTooSlow = errors.New("the reader is too slow")
	// ErrReaderGone is for a reader that ends before there is room for its next frame or event.
	ErrReaderGone = errors.New("the reader has gone")
)

// KeptBuffer is the size, in bytes, up to which a reader's buffer is reused.
const KeptBuffer = 16 << 10
