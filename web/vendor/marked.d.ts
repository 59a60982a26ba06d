import type { Marked } from 'marked';

export const marked: Marked;
