// Finds the effects inside whose functions a call is made, also across awaits. Only a runtime with AsyncLocalStorage,
// such as Node, can: in a browser it finds none.

const hooks = globalThis.process?.getBuiltinModule?.('node:async_hooks'); // not an import, which a browser cannot load
const storage = hooks?.AsyncLocalStorage && new hooks.AsyncLocalStorage();

/** Calls fn, and marks the calls that it makes as within the effect called name of owner. */
export function within(owner, name, fn) {
  return storage ? storage.run({ owner, name, outer: storage.getStore() }, fn) : fn();
}

/** Whether the caller is within the effect called name of owner. */
export function isWithin(owner, name) {
  for (let at = storage?.getStore(); at; at = at.outer) if (at.owner === owner && at.name === name) return true;
  return false;
}
