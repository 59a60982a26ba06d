package recovery_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"mailroom/internal/recovery"
)

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	explode := func() (err error) {
		defer recovery.Error(quiet, "a test", &err)
		var none []int
		return fmt.Errorf("none is %d", none[len(none)])
	}
	p, ok := errors.AsType[*recovery.Panic](explode())
	if !ok || p.Value != "runtime error: index out of range [0] with length 0" ||
		!strings.Contains(p.Stack, "recovery_test.go") {
		t.Errorf("got %+v, want the panic and where it was", p)
	}
	calm := func() (err error) {
		defer recovery.Error(quiet, "a test", &err)
		return errors.New("own")
	}
	if err := calm(); err == nil || err.Error() != "own" {
		t.Errorf("without a panic: %v, want the function's own error", err)
	}
}

func TestALoggedPanicIsOneLineOfBoundedLength(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	func() {
		defer recovery.Log(log, "a reader")
		panic("a\nlevel=INFO msg=forged " + strings.Repeat("x", 1<<20))
	}()
	line := out.String()
	if strings.Count(line, "\n") != 1 ||
		!strings.Contains(line, `msg="panic recovered" in="a reader" panic="\"a\\nlevel=INFO`) {
		t.Errorf("logged %.200q, want one line", line)
	}
	if len(line) > 40<<10 {
		t.Errorf("a line of %d bytes", len(line))
	}
}

type silent struct{}

func (*silent) Error() string { panic("no text") }

func TestAValueWithoutATextIsDescribed(t *testing.T) {
	var got *recovery.Panic
	func() {
		defer recovery.Handle(slog.New(slog.DiscardHandler), "a test", func(p *recovery.Panic) { got = p })
		panic(&silent{})
	}()
	if got == nil || got.Value != "a *recovery_test.silent that cannot be formatted" {
		t.Errorf("got %+v", got)
	}
}
