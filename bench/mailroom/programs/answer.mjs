// The worker of the part "workers": it answers each run with the time at which its handler was called, in ns.
const [slots, library] = process.argv.slice(2);
const { work } = await import(library);

const now = () => String(BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000)) * 1000n);

await work('answer', now, { slots: Number(slots), stopOn: ['SIGTERM'] }).done;
