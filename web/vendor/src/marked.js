// The lexer of Markdown.

import { Marked } from 'marked';

export const marked = new Marked();
