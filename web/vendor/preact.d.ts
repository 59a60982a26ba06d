// Types of the bundle; see src/preact.js.
export { Component, createRef, Fragment, h, render } from 'preact';
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
export { batch, computed, effect, signal } from '@preact/signals';

export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
