// network.js - a sandbox's networks in tables: what was refused, forwarded ports, and recordings.
import { html, useEffect, useRef, useState } from "/vendor/preact.js";
import { call, note, request, store } from "/store.js";
import { Act, bytes, download, Empty, Failure, plain, useAnswer } from "/parts.js";
import { addFlows, flowName } from "/pcap.js";

const CAPTURE_MAX = 256 * 1024 * 1024;

function Forwards({ sandbox, forwards, again }) {
  const [vm, setVm] = useState(sandbox.vms[0].name), [port, setPort] = useState("");
  const add = (e) => {
    e.preventDefault();
    request("net.forward", { sandbox: sandbox.id, vm, port: Number(port) }).then(() => { setPort(""); again(); }, note);
  };
  const end = (one) => request("net.unforward", { sandbox: sandbox.id, host_port: one.host_port }).then(again, note);
  return html`<section class="card"><form class="bar" onSubmit=${add}><h2>Forwarded ports</h2><span class="grow"></span>
    <select aria-label="VM" value=${vm} onChange=${(e) => setVm(e.target.value)}>${sandbox.vms.map((one) => html`<option value=${one.name}>${plain(one.name)}</option>`)}</select>
    <input class="port" type="number" min="1" max="65535" placeholder="Port" aria-label="Port" required value=${port} onInput=${(e) => setPort(e.target.value)} />
    <${Act} disabled=${!port}>Forward</${Act}></form>
    ${forwards.length > 0 && html`<table><thead><tr><th>On this host</th><th>VM</th><th>Port there</th><th></th></tr></thead><tbody>
      ${forwards.map((one) => html`<tr><td class="mono">${one.host}:${one.host_port}</td><td>${plain(one.vm)}</td><td class="mono">${one.address}:${one.port}</td>
        <td class="num"><${Act} small danger onclick=${() => end(one)}>End</${Act}></td></tr>`)}</tbody></table>`}</section>`;
}

function Refused({ refused }) {
  const names = [...refused.names].sort((a, b) => b.count - a.count);
  const connections = [...refused.connections].sort((a, b) => b.count - a.count);
  const when = (last) => (last ? new Date(last * 1000).toLocaleTimeString() : "");
  return html`<section class="card"><h2>Refused</h2>
    ${!names.length && !connections.length && html`<${Empty} title="Nothing was refused">What VMs try to reach and may not appears here.</${Empty}>`}
    ${names.length > 0 && html`<table class="refused"><thead><tr><th>Name</th><th>Network</th><th>Why</th><th class="num">Times</th><th class="num">Last</th></tr></thead><tbody>
      ${names.map((one) => html`<tr><td class="mono"><span class="cut wide" title=${plain(one.name)}>${plain(one.name ?? "others")}</span></td><td>${plain(one.vnet)}</td><td>${plain(one.why)}</td><td class="num">${one.count}</td><td class="num">${when(one.last)}</td></tr>`)}</tbody></table>`}
    ${connections.length > 0 && html`<table class="refused"><thead><tr><th>From</th><th>To</th><th>Network</th><th>Protocol</th><th class="num">Times</th></tr></thead><tbody>
      ${connections.map((one) => html`<tr><td class="mono">${plain(one.from ?? "others")}</td><td class="mono">${plain(one.to ?? "")}${one.port ? ":" + one.port : ""}</td><td>${plain(one.vnet)}</td><td>${plain(one.protocol ?? "")}</td><td class="num">${one.count}</td></tr>`)}</tbody></table>`}</section>`;
}

// A recording is kept here until it is downloaded, and read as it comes.
function Capture({ sandbox, vnets }) {
  const [vnet, setVnet] = useState(""), [state, set] = useState({ size: 0, flows: [] });
  const running = useRef(null), parts = useRef([]), reader = useRef(null);
  const stop = () => running.current?.cancel();
  useEffect(() => stop, []);
  const start = () => {
    parts.current = [];
    reader.current = addFlows();
    let size = 0, drawn = 0;
    const show = (on) => set({ on, size, flows: reader.current.flows() });
    const one = (running.current = call("net.capture", vnet ? { sandbox: sandbox.id, vnet } : { sandbox: sandbox.id }, {
      data(blob) {
        parts.current.push(blob.slice());
        reader.current.add(blob);
        size += blob.length;
        if (size > CAPTURE_MAX) {
          note("The recording is full.");
          one.cancel();
        }
        if (Date.now() - drawn < 200) return;
        drawn = Date.now();
        show(true);
      },
    }));
    show(true);
    one.done.catch(note).then(() => show(false));
  };
  const save = () => download(`${sandbox.name || sandbox.id}${vnet && "-" + vnet}.pcap`, parts.current, "application/vnd.tcpdump.pcap");
  return html`<section class="card"><div class="bar"><h2>Recording</h2><span class="dim">${state.size ? bytes(state.size) : ""}</span><span class="grow"></span>
      <select aria-label="Network" value=${vnet} disabled=${state.on} onChange=${(e) => setVnet(e.target.value)}><option value="">All networks</option>
        ${vnets.map((one) => html`<option value=${one.alias}>${plain(one.alias)}</option>`)}</select>
      ${state.on ? html`<button onClick=${stop}>Stop</button>` : html`<button onClick=${start}>Record</button>`}
      <button disabled=${state.on || !state.size} onClick=${save}>Download</button></div>
    ${state.flows.length > 0 ? html`<table class="flows"><thead><tr><th>Protocol</th><th>Between</th><th class="num">Packets</th><th class="num">Bytes</th><th>Last</th></tr></thead>
      <tbody>${state.flows.map((flow) => html`<tr key=${flow.key}><td>${flow.protocol}</td><td class="mono">${flowName(flow)}</td><td class="num">${flow.packets}</td><td class="num">${bytes(flow.bytes)}</td><td class="mono"><span class="cut wide">${plain(flow.note)}</span></td></tr>`)}</tbody></table>`
      : state.on && html`<${Empty} title="Listening">Flows appear here as they come.</${Empty}>`}</section>`;
}

export function Network({ sandbox }) {
  const { result, error, again } = useAnswer("net.show", { sandbox: sandbox.id }, 1500);
  if (!result) return html`<${Failure} error=${error} />`;
  return html`<div class="two"><${Forwards} sandbox=${sandbox} forwards=${result.forwards} again=${again} />
      ${result.nics.length > 0 && html`<section class="card"><h2>Network cards</h2><table><thead><tr><th>VM</th><th>Network</th><th>Address</th><th>MAC</th></tr></thead><tbody>
        ${result.nics.map((nic) => html`<tr><td>${plain(nic.vm)}</td><td>${plain(nic.vnet)}</td><td class="mono">${nic.lease || nic.ipv4 || "–"}</td><td class="mono">${nic.mac}</td></tr>`)}</tbody></table></section>`}</div>
    <${Refused} refused=${result.refused} />
    ${result.vnets.length > 0 && html`<${Capture} sandbox=${sandbox} vnets=${result.vnets} />`}`;
}
