package tracker

import (
	"syscall"
	"unsafe"
)

// largePage is what the processor can map at once, in bytes.
const largePage = 2 << 20

// makeSlice makes n zero values in a piece. To fill fresh memory takes mostly the
// system's time, which gives it page by page; so a large piece, with what is
// beside it, is asked for in large pages. Where there are none it is as any other.
func makeSlice[T any](n int) []T {
	all := make([]T, n)
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(all)))
	end := begin + uintptr(n)*unsafe.Sizeof(*new(T))
	if end-begin >= largePage/8 {
		begin, end = begin&^(largePage-1), (end+largePage-1)&^(largePage-1)
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, begin, end-begin, syscall.MADV_HUGEPAGE) // advice that need not be taken
	}
	return all
}
