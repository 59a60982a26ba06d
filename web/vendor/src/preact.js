// Preact with hooks, signals, and html for templates.

import htm from 'htm';
import { h } from 'preact';

export { Component, createRef, Fragment, h, render } from 'preact';
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
export { batch, computed, effect, signal } from '@preact/signals';

export const html = htm.bind(h);
