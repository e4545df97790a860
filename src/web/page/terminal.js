// terminal.js - a shell in a VM. What the guest writes is shown and obeyed as a terminal does, and no
// more: no link is opened, no clipboard touched, no title taken.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { call, store } from "/store.js";
import { Terminal as Xterm } from "/vendor/xterm.js";
import { FitAddon } from "/vendor/xterm-fit.js";
import { plain } from "/parts.js";

const SCROLLBACK = 5000;
// As `moat shell` does it: the user's own shell.
const SHELL = 's=${SHELL:-}; [ -x "$s" ] || s=/bin/bash; [ -x "$s" ] || s=/bin/sh; exec "$s" -l';

export const termTheme = { background: "#10161c", foreground: "#d6dee6", cursor: "#4cc2dd", selectionBackground: "#2f5568" };

export function makeTerminal(element, options) {
  const term = new Xterm({
    fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace", fontSize: 13, scrollback: SCROLLBACK,
    theme: termTheme, linkHandler: { activate() {} }, windowOptions: {}, ...options,
  });
  // 52 would be the clipboard; 8 links; none is of use here.
  for (const code of [8, 9, 52, 777, 1337]) term.parser.registerOscHandler(code, () => true);
  const fit = new FitAddon();
  term.loadAddon(fit);
  term.open(element);
  fit.fit();
  const seen = new ResizeObserver(() => { if (element.offsetWidth) fit.fit(); });
  seen.observe(element);
  return { term, end() { seen.disconnect(); term.dispose(); } };
}

function startShell(term, sandbox, vm, user, ended) {
  const windows = vm.os_type === "windows";
  const args = { sandbox, vm: vm.name, argv: windows ? ["cmd.exe"] : ["/bin/sh", "-c", SHELL],
    env: { TERM: "xterm-256color" }, tty: { rows: term.rows, cols: term.cols } };
  if (user) args.user = user;
  const running = call("exec", args, { input: "stream", data: (blob) => term.write(blob) });
  const encoder = new TextEncoder();
  const parts = [
    term.onData((text) => running.write(encoder.encode(text))),
    term.onBinary((text) => running.write(Uint8Array.from(text, (c) => c.charCodeAt(0)))),
    term.onResize(({ rows, cols }) => running.resize(rows, cols)),
  ];
  const over = (text) => {
    for (const part of parts) part.dispose();
    ended(text);
  };
  running.done.then((end) => over(`The shell has ended with code ${end.exit_code}.`), (error) => over(error.message));
  return running;
}

export function Terminal({ sandbox, vm, shown }) {
  const place = useRef(), shell = useRef(), made = useRef();
  const [state, set] = useState({ why: "" });
  const [root, setRoot] = useState(false);
  const begin = () => {
    if (!made.current) made.current = makeTerminal(place.current);
    set({ open: true });
    shell.current = startShell(made.current.term, sandbox.id, vm, root ? "root" : "", (why) => {
      shell.current = null;
      set({ why });
    });
    made.current.term.focus();
  };
  useEffect(() => () => {
    shell.current?.cancel();
    made.current?.end();
  }, []);
  useEffect(() => { if (shown && state.open) made.current?.term.focus(); }, [shown]);
  // Who may change nothing any more types nothing more, either.
  useEffect(() => { if (made.current) made.current.term.options.disableStdin = !store.acting; }, [store.acting, state.open]);
  const full = () => place.current.requestFullscreen?.();
  return html`<div class="shellview" hidden=${!shown}>
    <div class="bar"><b>${plain(vm.name)}</b><span class="dim">${!state.open ? "closed" : store.acting ? "open" : "open, looking only"}</span><span class="grow"></span>
      <label><input type="checkbox" checked=${root} disabled=${state.open} onChange=${(e) => setRoot(e.target.checked)} /> as root</label>
      <button class="small" onClick=${full} >Full screen</button>
      <button class="small" disabled=${!state.open} onClick=${() => shell.current?.cancel()}>Close</button></div>
    <div class="shellscreen" ref=${place}></div>
    ${!state.open && html`<div class="over">${state.why && html`<p>${plain(state.why)}</p>`}
      <button class="primary" disabled=${!store.acting} onClick=${begin}>${state.why ? "Open another shell" : "Open a shell"}</button>
      <p class="dim">${store.acting ? "That a person has typed here is recorded with the sandbox." : "The console only looks. Allow changes at the top of the page first."}</p></div>`}
  </div>`;
}

// A log that is followed, coloured as the guest wanted; nothing can be typed.
export function Log({ sandbox, vm, kind }) {
  const place = useRef();
  useEffect(() => {
    const { term, end } = makeTerminal(place.current, { disableStdin: true, convertEol: true, cursorInactiveStyle: "none" });
    const following = call("logs", { sandbox: sandbox.id, vm: vm.name, kind, follow: true }, { data: (blob) => term.write(blob) });
    following.done.catch((error) => {
      if (error.kind !== "cancelled") term.write(`\r\n\x1b[33m${plain(error.message)}\x1b[0m\r\n`);
    });
    return () => {
      following.cancel();
      end();
    };
  }, [sandbox.id, vm.name, kind, store.wire]);
  return html`<div class="shellview log"><div class="shellscreen" ref=${place}></div></div>`;
}
