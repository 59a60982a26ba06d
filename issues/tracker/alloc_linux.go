package tracker

import (
	"syscall"
	"unsafe"
)

// largePage is the size of a huge page, in bytes.
const largePage = 2 << 20

// makeSlice allocates n zero values. Large slices are advised to use huge pages, because page
// faults dominate the cost of fresh memory.
func makeSlice[T any](n int) []T {
	all := make([]T, n)
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(all)))
	end := begin + uintptr(n)*unsafe.Sizeof(*new(T))
	if end-begin >= largePage/8 {
		begin, end = begin&^(largePage-1), (end+largePage-1)&^(largePage-1)
		// advisory; an error changes nothing
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, begin, end-begin, syscall.MADV_HUGEPAGE)
	}
	return all
}
