export { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
