// sandbox.js - one sandbox: its parts, and what can be done in it.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { call, note, request, store } from "/store.js";
import { Act, age, Badge, bytes, Empty, Failure, Meter, nameOf, percent, plain, Spark, stateOf, touchedText, useAnswer, useTick } from "/parts.js";
import { Topology } from "/topology.js";
import { Network } from "/network.js";

const TABS = [["overview", "Overview"], ["terminal", "Terminal"], ["screen", "Screen"], ["log", "Console log"], ["network", "Network"], ["snapshots", "Snapshots"], ["files", "Files"]];
const SHOT_MS = 2000;
// All of a screen, as a part: places that others give count in the last picture that is no part.
const WHOLE = { of: [1, 1], region: [0, 0, 1, 1] };

export const vmNamed = (sandbox, name) =>
  sandbox.vms.find((vm) => vm.name === name) || sandbox.vms.find((vm) => vm.default) || sandbox.vms[0];

// A module that is loaded when a tab needs it first.
function useModule(load) {
  const [module, set] = useState(null);
  useEffect(() => { load().then(set, note); }, []);
  return module;
}

// ---- screens ----

// The screen of a VM, taken again and again while it is looked at. A VM without one is left alone.
export function Shot({ sandbox, vm, none }) {
  const place = useRef(), [missing, setMissing] = useState(null);
  useEffect(() => {
    if (!vm.display) return setMissing(new Error("no display"));
    let over = false, timer = 0, last = "";
    const take = async () => {
      const parts = [];
      try {
        if (!document.hidden && vm.state === "running") {
          await call("screenshot", { sandbox: sandbox.id, vm: vm.name, ...WHOLE }, { data: (blob) => parts.push(blob) }).done;
          if (over) return;
          const url = URL.createObjectURL(new Blob(parts, { type: "image/png" }));
          if (place.current) place.current.src = url;
          if (last) URL.revokeObjectURL(last);
          last = url;
          setMissing(null);
        }
      } catch (error) {
        if (over) return;
        setMissing(error);
        if (error.kind === "unsupported" || error.kind === "invalid") return;
      }
      if (!over) timer = setTimeout(take, SHOT_MS);
    };
    take();
    return () => {
      over = true;
      clearTimeout(timer);
      if (last) URL.revokeObjectURL(last);
    };
  }, [sandbox.id, vm.name, vm.state, vm.display, store.wire]);
  if (missing) return none ? none(missing) : null;
  return html`<img class="shot" ref=${place} alt="Screen of ${plain(vm.name)}" />`;
}

function Screen({ sandbox, vm }) {
  const module = useModule(() => import("/screen.js"));
  if (!vm.display) return html`<${Empty} title="No display">This VM has none that moat shows. With <code>vga: std</code> in its spec it has one.</${Empty}>`;
  return module && html`<${module.Screen} sandbox=${sandbox} vm=${vm} />`;
}

// ---- overview ----

function VmCard({ sandbox, vm, go }) {
  const used = store.figures.get(sandbox.id)?.get(vm.name) || { history: [] };
  const facts = [["Image", vm.image], ["User", vm.user], ["Runs by", vm.accelerator || sandbox.driver], ["Start", vm.start], ["Reached by", vm.way || "nothing yet"],
    ["Server", vm.server && `${vm.server} / ${vm.vmid}`]].filter(([, value]) => value);
  return html`<section class="card vmcard">
    <h3><span>${plain(vm.name)}</span> <${Badge} state=${vm.state} /></h3>
    <button class="thumb" onClick=${() => go("screen", vm.name)} title="Screen">
      <${Shot} sandbox=${sandbox} vm=${vm} none=${() => html`<span class="noshot">no display</span>`} /></button>
    ${vm.error && html`<div class="notice bad">${plain(vm.error)}</div>`}
    ${vm.lack && html`<div class="notice">${plain(vm.lack)}</div>`}
    <div class="usage"><div><small>CPU, ${vm.vcpus} in all</small><b>${percent(used.cpu)}</b><${Spark} values=${used.history} most=${0.25} /></div>
      <div><small>of ${bytes(vm.ram_mb * 1048576)}</small><b>${bytes(used.memory)}</b><${Meter} part=${used.memory / (vm.ram_mb * 1048576)} /></div>
      <div><small>In / out</small><b>${used.receiving == null ? "–" : `${bytes(used.receiving * 1e6)}/s · ${bytes(used.sending * 1e6)}/s`}</b></div></div>
    <dl>${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${plain(value)}</dd>`)}
      ${used.command && html`<dt>${used.running ? "Running" : "Ran"}</dt><dd class="mono cut" title=${plain(used.command)}>${plain(used.command)}</dd>`}</dl>
    <div class="buttons"><button class="small primary" onClick=${() => go("terminal", vm.name)}>Terminal</button>
      <button class="small" onClick=${() => go("log", vm.name)}>Log</button>
      <button class="small" onClick=${() => go("files", vm.name)}>Files</button>
      ${vm.console && /^https:/.test(vm.console) && html`<span class="dim cut mono" title=${plain(vm.console)}>${plain(vm.console)}</span>`}</div>
  </section>`;
}

function Overview({ sandbox, go }) {
  const { result, error } = useAnswer("net.show", { sandbox: sandbox.id }, 4000);
  return html`${error && !result && html`<${Failure} error=${error} />`}
    ${result && (result.vnets.length > 0) && html`<section class="card drawn"><h2>Networks</h2><div class="scroll">
      <${Topology} net=${result} vms=${sandbox.vms} choose=${(name) => go("terminal", name)} /></div></section>`}
    <div class="cards">${sandbox.vms.map((vm) => html`<${VmCard} key=${vm.name} sandbox=${sandbox} vm=${vm} go=${go} />`)}</div>`;
}

// ---- snapshots ----

// Does something that takes a while, and shows how far it is.
export function useWork() {
  const [work, set] = useState(null);
  const run = async (title, op, args, then) => {
    set({ title, text: "" });
    try {
      const result = await call(op, args, { progress: (p) => set({ title, text: p.text, part: p.total ? p.done / p.total : null }) }).done;
      then?.(result);
    } catch (error) {
      note(error);
    }
    set(null);
  };
  const shown = work && html`<div class="notice work" role="status"><span class="spin"></span> ${work.title} <span class="dim">${plain(work.text)}</span>
    ${work.part != null && html`<${Meter} part=${work.part} />`}</div>`;
  return [run, shown, work !== null];
}

function Snapshots({ sandbox }) {
  const { result, error, again } = useAnswer("snapshots", { sandbox: sandbox.id });
  const [name, setName] = useState("");
  const [run, working, busy] = useWork();
  const save = (e) => {
    e.preventDefault();
    run(`Saving ${name}`, "snapshot", { sandbox: sandbox.id, name }, () => { setName(""); note(`Saved as ${name}.`, "good"); again(); });
  };
  const restore = (one) => confirm(`Go back to “${plain(one.name)}”? What has happened in all VMs since is lost, and commands that run there are ended.`) &&
    run(`Going back to ${one.name}`, "restore", { sandbox: sandbox.id, name: one.name }, () => note(`Back at ${one.name}.`, "good"));
  const remove = (one) => confirm(`Delete the snapshot “${plain(one.name)}”?`) &&
    run(`Deleting ${one.name}`, "snapshot.rm", { sandbox: sandbox.id, name: one.name }, again);
  return html`<${Failure} error=${error} />${working}
    ${result && html`<section class="card"><form class="bar" onSubmit=${save}><h2>Snapshots</h2><span class="grow"></span>
      <input placeholder="Name of a new snapshot" aria-label="Name of a new snapshot" value=${name} required pattern="[A-Za-z][A-Za-z0-9_.\\-]*" maxlength="40" onInput=${(e) => setName(e.target.value)} />
      <${Act} disabled=${busy || !name}>Save now</${Act}></form>
      ${result.snapshots.length ? html`<table><thead><tr><th>Name</th><th>Made</th><th class="num">Size</th><th></th></tr></thead>
        <tbody>${result.snapshots.map((one) => html`<tr key=${one.name}><td><b>${plain(one.name)}</b></td>
          <td>${age(one.created_us / 1e6)} ago</td><td class="num">${bytes(one.size)}</td>
          <td class="num"><${Act} small disabled=${busy} onclick=${() => restore(one)}>Restore</${Act}> <${Act} small danger disabled=${busy} onclick=${() => remove(one)}>Delete</${Act}></td></tr>`)}</tbody></table>`
        : html`<${Empty} title="No snapshots">A snapshot has the memory and the disks of all VMs.</${Empty}>`}</section>`}`;
}

// ---- the page of a sandbox ----

function Actions({ sandbox }) {
  const [run, working, busy] = useWork();
  const fork = () => run("Copying", "fork", { sandbox: sandbox.id, detach: true },
    ({ sandboxes: [made] }) => { note(`The copy is ${made.name || made.id}.`, "good"); location.hash = `#/sandbox/${made.id}`; });
  const owner = sandbox.labels.task ? ` It belongs to a sample of “${plain(sandbox.labels.task)}”, which fails without it.` : "";
  const remove = () => confirm(`Remove ${plain(nameOf(sandbox))} with all its VMs?${owner}`) &&
    run("Removing", "rm", { sandboxes: [sandbox.id] }, () => { location.hash = "#/sandboxes"; });
  return html`<div class="buttons"><${Act} disabled=${busy} onclick=${fork} title="A running copy of all VMs, which stays until it is removed">Fork</${Act}>
    <${Act} danger disabled=${busy} onclick=${remove}>Remove</${Act}></div>${working}`;
}

function Head({ sandbox }) {
  const { name, ...labels } = sandbox.labels;
  return html`<div class="head"><a class="back" href="#/sandboxes" title="All sandboxes (Esc)">‹</a>
      <div><h1>${plain(nameOf(sandbox))} <${Badge} state=${stateOf(sandbox)} /></h1>
        <div class="chips"><span class="mono">${sandbox.id}</span><span>${age(sandbox.created)} old</span><span>${sandbox.driver}</span>
          <span>${sandbox.detached ? "kept until removed" : `belongs to process ${sandbox.owner_pid}`}</span>
          ${Object.entries(labels).map(([key, value]) => html`<span class="label" title=${plain(value)}><i>${plain(key)}</i>${plain(value)}</span>`)}</div></div>
      <span class="grow"></span><${Actions} sandbox=${sandbox} /></div>
    ${sandbox.touched && html`<div class="notice hand">A person has acted here: ${touchedText(sandbox.touched)}; last ${age(Math.max(...sandbox.touched.map((t) => t.last)))} ago.</div>`}`;
}

// Terminals stay open while other tabs are looked at.
function Terminals({ sandbox, vm, shown }) {
  const module = useModule(() => import("/terminal.js"));
  const [opened, open] = useState([]);
  useEffect(() => { if (shown && !opened.includes(vm.name)) open([...opened, vm.name]); }, [shown, vm.name]);
  return module && opened.map((name) => html`<${module.Terminal} key=${name} sandbox=${sandbox} vm=${vmNamed(sandbox, name)} shown=${shown && name === vm.name} />`);
}

function Log({ sandbox, vm }) {
  const module = useModule(() => import("/terminal.js"));
  const [kind, set] = useState("console");
  return html`<div class="bar tight">${["console", "qemu"].map((one) => html`<button class="small ${one === kind ? "primary" : ""}" onClick=${() => set(one)}>${one === "console" ? "Console" : "QEMU's messages"}</button>`)}</div>
    ${module && html`<${module.Log} sandbox=${sandbox} vm=${vm} kind=${kind} />`}`;
}

function FilesTab(props) {
  const module = useModule(() => import("/files.js"));
  return module && html`<${module.Files} ...${props} />`;
}

export function Sandbox({ id, tab, vm: vmName }) {
  useTick(10000);
  const sandbox = store.sandboxes.get(id);
  const kept = useRef(null);
  if (sandbox) kept.current = sandbox;
  if (!sandbox)
    return store.listed ? html`<${Empty} title="${kept.current ? "It has gone" : "No such sandbox"}">
      ${kept.current ? "This sandbox was removed." : `There is no sandbox ${plain(id)}.`} <a href="#/sandboxes">All sandboxes</a></${Empty}>` : null;
  const vm = vmNamed(sandbox, vmName);
  const go = (nextTab, nextVm) => { location.hash = `#/sandbox/${id}/${nextTab}/${encodeURIComponent(nextVm)}`; };
  const perVm = ["terminal", "screen", "log", "files"].includes(tab);
  return html`<${Head} sandbox=${sandbox} />
    <div class="tabs" role="tablist">${TABS.map(([name, title]) => html`<a role="tab" class=${tab === name ? "here" : ""} aria-selected=${tab === name}
      href="#/sandbox/${id}/${name}/${encodeURIComponent(vm.name)}">${title}</a>`)}
      <span class="grow"></span>${perVm && sandbox.vms.length > 1 && html`<select aria-label="VM" value=${vm.name} onChange=${(e) => go(tab, e.target.value)}>
        ${sandbox.vms.map((one) => html`<option value=${one.name}>${plain(one.name)}</option>`)}</select>`}</div>
    <${Terminals} sandbox=${sandbox} vm=${vm} shown=${tab === "terminal"} />
    ${tab === "overview" && html`<${Overview} sandbox=${sandbox} go=${go} />`}
    ${tab === "screen" && html`<${Screen} key=${vm.name} sandbox=${sandbox} vm=${vm} />`}
    ${tab === "log" && html`<${Log} sandbox=${sandbox} vm=${vm} />`}
    ${tab === "network" && html`<${Network} sandbox=${sandbox} />`}
    ${tab === "snapshots" && html`<${Snapshots} sandbox=${sandbox} />`}
    ${tab === "files" && html`<${FilesTab} key=${vm.name} sandbox=${sandbox} vm=${vm} />`}`;
}
