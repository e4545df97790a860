// list.js - all sandboxes, by the task that they serve.
import { html, useEffect, useMemo, useRef, useState, Component } from "/vendor/preact.js";
import { store } from "/store.js";
import { age, Badge, bytes, count, Empty, Meter, nameOf, percent, plain, stateOf, touchedText, useTick } from "/parts.js";

function groups(words) {
  const found = new Map();
  for (const sandbox of store.sandboxes.values()) {
    const text = [sandbox.id, sandbox.name, stateOf(sandbox), ...Object.entries(sandbox.labels).map((l) => l.join("=")),
      ...sandbox.vms.map((vm) => vm.name + " " + vm.image)].join(" ").toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const task = sandbox.labels.task || "";
    if (!found.has(task)) found.set(task, []);
    found.get(task).push(sandbox);
  }
  const natural = (a, b) => String(a || "").localeCompare(String(b || ""), undefined, { numeric: true });
  for (const list of found.values())
    list.sort((a, b) => natural(a.labels.sample, b.labels.sample) || natural(a.labels.epoch, b.labels.epoch) || a.created - b.created || natural(a.id, b.id));
  return [...found].sort(([a], [b]) => !a - !b || natural(a, b));
}

export function sums(id) {
  const all = [...(store.figures.get(id)?.values() || [])];
  const add = (name) => all.reduce((sum, one) => (one[name] == null ? sum : (sum || 0) + one[name]), null);
  const last = all.filter((one) => one.command).sort((a, b) => b.running - a.running)[0];
  return { cpu: add("cpu"), memory: add("memory"), command: last?.command || "", running: last?.running || 0 };
}

// A row is drawn again only when what it shows has changed: there may be hundreds.
class Row extends Component {
  shouldComponentUpdate(next) {
    return next.sandbox !== this.props.sandbox || next.stamp !== this.props.stamp;
  }
  render({ sandbox }) {
    const used = sums(sandbox.id);
    const promised = sandbox.vms.reduce((sum, vm) => sum + vm.ram_mb * 1048576, 0);
    const processors = sandbox.vms.reduce((sum, vm) => sum + vm.vcpus, 0);
    const { task, sample, epoch, name, ...others } = sandbox.labels;
    return html`<tr data-id=${sandbox.id}>
      <td><a class="row" href="#/sandbox/${sandbox.id}">${plain(nameOf(sandbox))}</a>
        ${sandbox.name && html`<small class="mono">${sandbox.id}</small>`}
        ${sandbox.touched && html`<span class="hand" title=${"A person has acted here: " + touchedText(sandbox.touched)}>touched</span>`}</td>
      <td title=${plain(sample)}>${sample != null && plain(sample)}${epoch != null && html` <small>epoch ${plain(epoch)}</small>`}</td>
      <td><${Badge} state=${stateOf(sandbox)} /></td>
      <td class="num">${age(sandbox.created)}</td>
      <td class="num"><${Meter} part=${used.cpu && used.cpu / processors} title="of its processors" />${percent(used.cpu)}</td>
      <td class="num"><${Meter} part=${used.memory && used.memory / promised} title="of ${bytes(promised)}" />${bytes(used.memory)}</td>
      <td><span class="cut wide" title=${sandbox.vms.map((vm) => plain(vm.name)).join(", ")}>${sandbox.vms.length > 1 && html`<small>${sandbox.vms.length}</small> `}${sandbox.vms.map((vm) => plain(vm.name)).join(", ")}</span></td>
      <td class="mono"><span class="cut wide ${used.running ? "busy" : ""}" title=${plain(used.command)}>${plain(used.command) || html`<span class="dim">${Object.entries(others).map(([k, v]) => `${plain(k)}=${plain(v)}`).join(" ")}</span>`}</span></td>
    </tr>`;
  }
}

function stampOf(id) {
  let stamp = Math.floor(Date.now() / 10000); // so that ages go on
  for (const one of store.figures.get(id)?.values() || []) stamp += one.at_us % 1e9 + one.running;
  return stamp;
}

function Group({ task, list, closed, toggle }) {
  const used = list.map((sandbox) => sums(sandbox.id));
  const total = (name) => used.reduce((sum, one) => sum + (one[name] || 0), 0);
  return html`<section class="card group">
    <h2><button class="quiet fold" aria-expanded=${!closed} onClick=${toggle}>${closed ? "▸" : "▾"} ${task ? plain(task) : "Without a task"}</button>
      <span class="dim">${count(list.length, "sandbox", "sandboxes")} · ${percent(total("cpu"))} CPU · ${bytes(total("memory"))}</span></h2>
    ${!closed && html`<table class="sandboxes"><thead><tr><th>Sandbox</th><th>Sample</th><th>State</th><th class="num">Age</th>
      <th class="num">CPU</th><th class="num">Memory</th><th>VMs</th><th>Command</th></tr></thead>
      <tbody>${list.map((sandbox) => html`<${Row} key=${sandbox.id} sandbox=${sandbox} stamp=${stampOf(sandbox.id)} />`)}</tbody></table>`}
  </section>`;
}

function moveBy(step) {
  const rows = [...document.querySelectorAll("a.row")];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}

export function List() {
  const [filter, setFilter] = useState(sessionStorage.getItem("filter") || "");
  const [closed, setClosed] = useState(new Set());
  const input = useRef();
  useTick(10000);
  useEffect(() => {
    const on = (e) => {
      const typing = e.target.tagName === "INPUT" && e.target.type === "search";
      if (e.key === "/" && !typing) input.current.focus();
      else if (e.key === "Escape" && typing) input.current.blur();
      else if (!typing && (e.key === "j" || e.key === "ArrowDown")) moveBy(1);
      else if (!typing && (e.key === "k" || e.key === "ArrowUp")) moveBy(-1);
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", on);
    return () => removeEventListener("keydown", on);
  }, []);
  const words = useMemo(() => filter.toLowerCase().split(/\s+/).filter(Boolean), [filter]);
  const found = groups(words);
  const toggle = (task) => {
    const next = new Set(closed);
    if (!next.delete(task)) next.add(task);
    setClosed(next);
  };
  const choose = (text) => {
    setFilter(text);
    sessionStorage.setItem("filter", text);
  };
  return html`<div class="head"><h1>Sandboxes</h1><span class="grow"></span>
      <input type="search" placeholder="Filter: task, sample, label, image…   /" ref=${input} value=${filter}
        aria-label="Filter" onInput=${(e) => choose(e.target.value)} /></div>
    ${found.map(([task, list]) => html`<${Group} key=${task} task=${task} list=${list} closed=${closed.has(task)} toggle=${() => toggle(task)} />`)}
    ${store.listed && !found.length && (store.sandboxes.size
      ? html`<${Empty} title="None fits">No sandbox fits “${filter}”.</${Empty}>`
      : html`<${Empty} title="No sandboxes">An evaluation makes some, and so does <code>moat up IMAGE</code>. They appear here by themselves.</${Empty}>`)}`;
}
