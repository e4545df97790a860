// parts.js - small parts that views are made of, and how values are written.
import { html, useEffect, useState } from "/vendor/preact.js";
import { request, store } from "/store.js";

export function age(since) {
  const seconds = Math.max(0, Math.round(Date.now() / 1000 - since));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor((seconds % 86400) / 3600)}h`;
}

export function bytes(n) {
  if (n == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

export const percent = (part) => (part == null ? "–" : `${Math.round(part * 100)}%`);

export const count = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;

// Guests choose names, too: what could turn text around or hide it is shown as what it is.
export const plain = (text) =>
  String(text ?? "").replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function stateOf(sandbox) {
  const dead = sandbox.vms.filter((vm) => vm.state === "dead").length;
  if (!dead || sandbox.state !== "running") return sandbox.state;
  return dead === sandbox.vms.length ? "dead" : "part dead";
}

export const nameOf = (sandbox) => sandbox.name || sandbox.id;

// Draws a view again so often: for ages.
export function useTick(ms) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

// Asks when a view appears, and again so often while it is shown; `again` asks at once.
export function useAnswer(op, args, everyMs = 0) {
  const [answer, set] = useState({});
  const [turn, again] = useState(0);
  const key = op + JSON.stringify(args) + turn + store.state;
  useEffect(() => {
    let over = false, timer = 0;
    const ask = () =>
      request(op, args)
        .then((result) => over || set({ result }), (error) => over || set((old) => ({ ...old, error })))
        .then(() => { if (!over && everyMs) timer = setTimeout(ask, everyMs); });
    ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key]);
  return { ...answer, again: () => again((n) => n + 1) };
}

export const Badge = ({ state }) =>
  html`<span class="badge ${state.replace(" ", "-")}"><i></i>${state}</span>`;

export const Empty = ({ title, children }) =>
  html`<div class="empty"><h3>${title}</h3><p>${children}</p></div>`;

export function Failure({ error }) {
  if (!error) return null;
  const dull = error.kind === "unsupported";
  return html`<div class="notice ${dull ? "" : "bad"}">${plain(error.message)}</div>`;
}

export function Meter({ part, title }) {
  const width = Math.min(100, Math.round((part || 0) * 100));
  const hot = width > 85 ? "hot" : "";
  return html`<span class="meter ${hot}" title=${title}><i style=${{ width: width + "%" }}></i></span>`;
}

// The last minutes of a value between 0 and `most`.
export function Spark({ values, most }) {
  const step = 100 / 59, top = Math.max(most, ...values);
  const points = values.map((v, i) => `${((60 - values.length + i) * step).toFixed(1)},${(24 - (v / top) * 22).toFixed(1)}`);
  return html`<svg class="spark" viewBox="0 0 100 25" preserveAspectRatio="none" aria-hidden="true">
    ${points.length > 1 && html`<polyline points=${points.join(" ")} />`}</svg>`;
}

export function touchedText(touched) {
  return touched.map((one) => `${one.what} ${one.count > 1 ? one.count + " times" : "once"}`).join(", ");
}

// A button that changes something: of use only once the person wants that.
export function Act({ onclick, children, danger, small, title, disabled }) {
  const off = !store.acting || disabled;
  const why = store.acting ? title : "The console only looks. Allow changes at the top of the page.";
  return html`<button class="${danger ? "danger" : ""} ${small ? "small" : ""}" disabled=${off}
    title=${why} onClick=${onclick}>${children}</button>`;
}

export function download(name, parts, type = "application/octet-stream") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = plain(name).replace(/[/\\]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
