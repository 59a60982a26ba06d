// Which rows of a long list are visible.

export { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
