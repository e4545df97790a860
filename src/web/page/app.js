// app.js - the frame around the views: where one is, the connection, what may be changed.
import { html, render, useEffect, useState } from "/vendor/preact.js";
import { connect, dismiss, setActing, store, takeToken, useStore } from "/store.js";
import { plain } from "/parts.js";
import { List } from "/list.js";
import { Sandbox } from "/sandbox.js";

const VIEWS = [
  ["sandboxes", "Sandboxes", "M4 5h16v5H4zM4 14h16v5H4z"],
  ["images", "Images", "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5"],
  ["servers", "Servers", "M5 4h14v6H5zM5 14h14v6H5zM8 7h.01M8 17h.01"],
  ["host", "This host", "M4 5h16v11H4zM9 20h6M12 16v4"],
];

// Views that are seldom looked at are loaded when they are.
const later = {
  images: () => import("/images.js").then((m) => m.Images),
  servers: () => import("/host.js").then((m) => m.Servers),
  host: () => import("/host.js").then((m) => m.Host),
};

// What a link may have garbled is taken as it is.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useRoute() {
  const [route, set] = useState(location.hash);
  useEffect(() => {
    const on = () => {
      if (takeToken() && store.state !== "ready") connect();
      set(location.hash);
    };
    addEventListener("hashchange", on);
    return () => removeEventListener("hashchange", on);
  }, []);
  return route.replace(/^#\/?/, "").split("/").map(decoded);
}

function Later({ name }) {
  const [view, set] = useState(null);
  useEffect(() => { later[name]().then((View) => set(() => View)); }, [name]);
  return view ? html`<${view} />` : null;
}

function theme(next) {
  const now = localStorage.getItem("theme") || "system";
  const chosen = next ? { system: "light", light: "dark", dark: "system" }[now] : now;
  localStorage.setItem("theme", chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  return chosen;
}

function Side({ at }) {
  const [chosen, choose] = useState(theme());
  return html`<nav class="side" aria-label="Views">
    <a class="brand" href="#/sandboxes"><img src="/icon.svg" alt="" width="26" height="26" /> moat</a>
    ${VIEWS.map(([name, title, path]) => html`<a class="${at === name ? "here" : ""}" href="#/${name}"
      aria-current=${at === name ? "page" : null}>
      <svg viewBox="0 0 24 24"><path d=${path} /></svg> <span>${title}</span>
      ${name === "sandboxes" && html`<b>${store.sandboxes.size || ""}</b>`}</a>`)}
    <div class="grow"></div>
    <button class="quiet" onClick=${() => choose(theme(true))} title="Colours">${{ system: "◐", light: "☀", dark: "☾" }[chosen]} ${chosen}</button>
    <div class="about">${store.hello ? `moat ${store.hello.version}` : ""}</div>
  </nav>`;
}

function Acting() {
  if (store.wire?.readOnly) return html`<span class="mode">read-only</span>`;
  return html`<label class="switch ${store.acting ? "on" : ""}"
    title="What you do in a sandbox is recorded with it, since it may change what an evaluation finds.">
    <input type="checkbox" checked=${store.acting} onChange=${(e) => setActing(e.target.checked)} />
    <i></i> ${store.acting ? "Changes allowed" : "Looking only"}</label>`;
}

function Connection() {
  if (store.state === "ready") return html`<span class="conn ok"><i></i>connected</span>`;
  return html`<span class="conn" role="status"><i></i>${store.state === "connecting" ? "connecting…" : plain(store.why) + "; trying again…"}</span>`;
}

function NoToken() {
  return html`<main class="center"><div class="card hello">
    <img src="/icon.svg" alt="" width="56" height="56" />
    <h1>Which console?</h1>
    <p>This page needs the whole address that <code>moat web</code> has printed: the part after
      <code>#</code> is what lets you in. It is another one each time the console starts.</p>
    <pre>moat web --url</pre></div></main>`;
}

function Notes() {
  return html`<div class="notes" aria-live="polite">${store.notes.map((one) => html`<div class="note ${one.kind}" key=${one.key}>
    <span>${plain(one.text)}</span><button class="quiet" aria-label="Dismiss" onClick=${() => dismiss(one)}>✕</button></div>`)}</div>`;
}

function App() {
  useStore();
  const [view = "", ...rest] = useRoute();
  const at = view === "sandbox" || !view ? "sandboxes" : view;
  useEffect(() => {
    const on = (e) => {
      if (e.key === "Escape" && view === "sandbox" && !e.target.closest?.(".shellview, input, dialog"))
        location.hash = "#/sandboxes";
    };
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
  }, [view]);
  if (store.state === "no-token") return html`<${NoToken} />`;
  return html`<${Side} at=${at} />
    <div class="main"><header class="top"><${Connection} /><span class="grow"></span><${Acting} /></header>
    <main class=${store.state === "ready" ? "" : "stale"}>
      ${view === "sandbox" ? html`<${Sandbox} id=${rest[0]} tab=${rest[1] || "overview"} vm=${rest[2]} key=${rest[0]} />`
        : later[at] ? html`<${Later} name=${at} />` : html`<${List} />`}
    </main></div><${Notes} />`;
}

theme();
takeToken();
connect();
render(html`<${App} />`, document.getElementById("app"));
