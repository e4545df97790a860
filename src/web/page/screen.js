// screen.js - the live screen of a VM, by noVNC. At first one only looks; control is taken by a button,
// and recorded with the sandbox. Nothing of a guest's clipboard is taken.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { call, store } from "/store.js";
import RFB from "/vendor/novnc.js";
import { Act, count, plain } from "/parts.js";

const RETRY_MS = 2000;
const KEYS = {
  "Ctrl+Alt+Del": [0xffe3, 0xffe9, 0xffff], "Ctrl+Alt+F1": [0xffe3, 0xffe9, 0xffbe], "Ctrl+Alt+F2": [0xffe3, 0xffe9, 0xffbf],
  "Ctrl+Alt+F7": [0xffe3, 0xffe9, 0xffc4], "Alt+Tab": [0xffe9, 0xff09], "Alt+F4": [0xffe9, 0xffc1], Super: [0xffeb], "Ctrl+W": [0xffe3, 0x77],
};

// What noVNC takes for a websocket: a request `screen`.
class Channel {
  constructor(args) {
    this.binaryType = "arraybuffer";
    this.protocol = "";
    this.readyState = "open";
    this.onopen = this.onmessage = this.onerror = this.onclose = null;
    this.request = call("screen", args, {
      input: "stream",
      data: (blob) => this.onmessage?.({ data: blob.slice().buffer }),
    });
    const end = (error) => {
      this.readyState = "closed";
      this.why = error?.message || "";
      this.onclose?.({ code: 1000, reason: this.why, wasClean: true });
    };
    this.request.done.then(() => end(), end);
    this.sending = Promise.resolve();
  }
  send(data) {
    const bytes = data instanceof ArrayBuffer ? new Uint8Array(data.slice(0)) : Uint8Array.from(data);
    this.sending = this.sending.then(() => this.request.write(bytes));
  }
  close() { this.request.cancel(); }
}

function press(rfb, keys) {
  for (const key of keys) rfb.sendKey(key, null, true);
  for (const key of [...keys].reverse()) rfb.sendKey(key, null, false);
}

function typeText(rfb, text) {
  for (const letter of text) {
    const code = letter.codePointAt(0);
    press(rfb, [letter === "\n" ? 0xff0d : code < 256 ? code : 0x1000000 | code]);
  }
}

export function Screen({ sandbox, vm }) {
  const place = useRef(), box = useRef(), rfb = useRef();
  const [control, setControl] = useState(false), [state, set] = useState({ text: "connecting…" }), [turn, again] = useState(0);
  useEffect(() => {
    let over = false, timer = 0;
    const channel = new Channel({ sandbox: sandbox.id, vm: vm.name, control });
    const one = (rfb.current = new RFB(place.current, channel, { shared: true }));
    one.viewOnly = !control;
    one.scaleViewport = true;
    one.background = "#000";
    one.addEventListener("connect", () => {
      const { width, height } = place.current.querySelector("canvas");
      set({ live: true, text: `${width} × ${height}` });
      if (control) one.focus();
    });
    one.addEventListener("disconnect", () => {
      if (over) return;
      set({ text: channel.why || "the screen has gone" });
      timer = setTimeout(() => again((n) => n + 1), RETRY_MS);
    });
    return () => {
      over = true;
      clearTimeout(timer);
      one.disconnect();
    };
  }, [sandbox.id, vm.name, control, turn, store.wire]);
  useEffect(() => { if (!store.acting) setControl(false); }, [store.acting]);
  const paste = () => {
    const text = prompt("Text to type there");
    if (text) typeText(rfb.current, text);
  };
  const others = vm.screen ? vm.screen.viewers - 1 : 0;
  return html`<div class="shellview screenview" ref=${box}><div class="bar"><b>${plain(vm.name)}</b>
      <span class="dim">${plain(state.text)}${others > 0 ? ` · ${count(others, "other viewer")}` : ""}</span><span class="grow"></span>
      ${control && html`<select aria-label="Keys" onChange=${(e) => { press(rfb.current, KEYS[e.target.value] || []); e.target.selectedIndex = 0; rfb.current.focus(); }}>
        <option value="">Keys…</option>${Object.keys(KEYS).map((name) => html`<option value=${name}>${name}</option>`)}</select>
        <button class="small" onClick=${paste}>Type text…</button>`}
      <button class="small" onClick=${() => box.current.requestFullscreen?.()}>Full screen</button>
      <${Act} small onclick=${() => setControl(!control)} title="It is recorded with the sandbox">${control ? "Give control back" : "Take control"}</${Act}></div>
    <div class="shellscreen ${control ? "controlled" : ""}" ref=${place}></div></div>`;
}
