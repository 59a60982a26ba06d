// Which effects a call is made within, also across awaits. Only a runtime with AsyncLocalStorage knows, such as Node:
// in a browser nothing is found.

const hooks = globalThis.process?.getBuiltinModule?.('node:async_hooks'); // not an import, which a browser cannot load
const storage = hooks?.AsyncLocalStorage && new hooks.AsyncLocalStorage();

/** Calls fn within one more effect, or whatever owner and name say. */
export function within(owner, name, fn) {
  return storage ? storage.run({ owner, name, outer: storage.getStore() }, fn) : fn();
}

/** Whether the caller is within the function of that owner and name. */
export function isWithin(owner, name) {
  for (let at = storage?.getStore(); at; at = at.outer) if (at.owner === owner && at.name === name) return true;
  return false;
}
