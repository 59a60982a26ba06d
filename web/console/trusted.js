// The addresses of scripts that the page may start. Its policy lets no text become one; this module alone
// makes them, from a fixed list.

const SCRIPTS = { push: 'sw.js', lexer: 'console/lexer.js' };

const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('worker', { createScriptURL: (name) => SCRIPTS[name] });

/** The address of a script: "push" or "lexer". */
export const script = (name) => (policy ? policy.createScriptURL(name) : SCRIPTS[name]);
