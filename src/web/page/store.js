// store.js - what the page knows: the connection, the sandboxes as `watch` tells of them, and their
// figures. Views are told of changes once a frame at most.
import { Wire, CLOSE_TOKEN, CallError } from "/wire.js";
import { useEffect, useReducer } from "/vendor/preact.js";

const FIGURES_SECONDS = 2;
const RETRY_MS = [300, 600, 1000, 2000];

export const store = {
  state: "connecting", // connecting, ready, lost, no-token
  why: "",
  wire: null,
  hello: null,
  acting: sessionStorage.getItem("acting") === "yes",
  listed: false,
  sandboxes: new Map(),
  figures: new Map(), // by sandbox id, then by the VM's name
  notes: [],
};

const listeners = new Set();
let drawing = false;

export function changed() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const listener of listeners) listener();
  });
}

// Draws a view again when something has changed.
export function useStore() {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    listeners.add(again);
    return () => listeners.delete(again);
  }, []);
  return store;
}

// ---- the token ----

// It comes in the fragment of the address and stays in this tab.
export function takeToken() {
  const found = /^#([0-9a-f]{32})(\/.*)?$/.exec(location.hash);
  if (!found) return false;
  sessionStorage.setItem("token", found[1]);
  history.replaceState(null, "", "/" + (found[2] ? "#" + found[2] : ""));
  return true;
}

// ---- the connection ----

let tries = 0;

export function connect() {
  const token = sessionStorage.getItem("token");
  if (!token) {
    store.state = "no-token";
    changed();
    return;
  }
  const wire = new Wire(token, { onready: (hello) => ready(wire, hello), onend: ended });
}

function ready(wire, hello) {
  tries = 0;
  Object.assign(store, { wire, hello, state: "ready", why: "", listed: false });
  if (wire.readOnly) store.acting = false;
  wire.act(store.acting);
  const seen = new Set();
  const watch = wire.call("watch", { figures: FIGURES_SECONDS }, {
    event: (event) => take(event, seen),
  });
  watch.done.catch((error) => note(error));
  changed();
}

function ended(code, reason) {
  store.wire = null;
  store.why = reason || "the console does not answer";
  store.state = code === CLOSE_TOKEN ? "no-token" : "lost";
  if (code === CLOSE_TOKEN) sessionStorage.removeItem("token");
  else setTimeout(connect, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
  changed();
}

function take(event, seen) {
  if (event.what === "sandbox") {
    seen.add(event.sandbox.id);
    store.sandboxes.set(event.sandbox.id, event.sandbox);
  } else if (event.what === "gone") {
    store.sandboxes.delete(event.id);
    store.figures.delete(event.id);
  } else if (event.what === "listed") {
    // What was there before the connection broke, and is no longer.
    for (const id of [...store.sandboxes.keys()])
      if (!seen.has(id)) store.sandboxes.delete(id);
    store.listed = true;
  } else if (event.what === "figures") takeFigures(event.vms);
  changed();
}

function takeFigures(vms) {
  for (const now of vms) {
    let ofSandbox = store.figures.get(now.sandbox);
    if (!ofSandbox) store.figures.set(now.sandbox, (ofSandbox = new Map()));
    const before = ofSandbox.get(now.vm);
    const history = before ? before.history : [];
    const passed = before ? now.at_us - before.at_us : 0;
    const rate = (name) =>
      before && passed > 0 && now[name] != null && before[name] != null
        ? Math.max(0, now[name] - before[name]) / passed : null;
    const cpu = rate("cpu_us");
    if (cpu != null) history.push(cpu);
    if (history.length > 60) history.shift();
    ofSandbox.set(now.vm, {
      ...now, cpu, history, sending: rate("sent"), receiving: rate("received"),
    });
  }
}

export function setActing(acting) {
  store.acting = acting && !store.wire?.readOnly;
  sessionStorage.setItem("acting", store.acting ? "yes" : "no");
  store.wire?.act(store.acting);
  changed();
}

// ---- requests ----

export function call(op, args, handlers) {
  if (store.wire) return store.wire.call(op, args, handlers);
  const lost = Promise.reject(new CallError("unavailable", "there is no connection"));
  lost.catch(() => {});
  return { done: lost, cancel() {}, eof() {}, resize() {}, async write() {} };
}

export const request = (op, args) => call(op, args).done;

// Shows a failure, or news, for a while.
export function note(what, kind = "error") {
  const text = what instanceof Error ? what.message : String(what);
  if (what instanceof CallError && what.kind === "cancelled") return;
  const one = { text, kind, key: Math.random() };
  store.notes = [...store.notes.slice(-4), one];
  changed();
  setTimeout(() => dismiss(one), kind === "error" ? 12000 : 4000);
}

export function dismiss(one) {
  store.notes = store.notes.filter((other) => other !== one);
  changed();
}
