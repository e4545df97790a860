// host.js - the daemon and its host; the Proxmox servers that it knows.
import { html } from "/vendor/preact.js";
import { age, Badge, bytes, Empty, Failure, Meter, plain, useAnswer } from "/parts.js";

export function Servers() {
  const { result, error } = useAnswer("pool", { action: "ls" }, 3000);
  const pools = new Map();
  for (const one of result?.instances || []) {
    if (!pools.has(one.pool)) pools.set(one.pool, []);
    pools.get(one.pool).push(one);
  }
  for (const pool of Object.keys(result?.waiting || {})) if (!pools.has(pool)) pools.set(pool, []);
  return html`<div class="head"><h1>Proxmox servers</h1></div><${Failure} error=${error} />
    ${result && !pools.size && html`<${Empty} title="No servers">The daemon knows the servers of evaluations that run on Proxmox VE. None has asked for any yet.</${Empty}>`}
    ${[...pools].map(([pool, list]) => html`<section class="card"><h2>Pool ${plain(pool)} <span class="dim">${result.waiting?.[pool] ? `${result.waiting[pool]} waiting` : "nobody waits"}</span></h2>
      <table><thead><tr><th>Instance</th><th>Server</th><th>Node</th><th>State</th><th class="num">Sandboxes</th><th>Detail</th></tr></thead><tbody>
      ${list.map((one) => html`<tr><td><b>${plain(one.instance)}</b></td><td>${plain(one.server)}</td><td>${plain(one.node)}</td><td><${Badge} state=${one.state} /></td>
        <td class="num">${one.max_sandboxes ? html`<${Meter} part=${one.sandboxes / one.max_sandboxes} />` : ""}${one.sandboxes}${one.max_sandboxes ? ` of ${one.max_sandboxes}` : ""}</td><td>${plain(one.detail)}</td></tr>`)}</tbody></table></section>`)}`;
}

export function Host() {
  const info = useAnswer("info", {}, 3000), doctor = useAnswer("doctor", {});
  const memory = info.result?.memory, mb = 1048576;
  const rows = info.result && [["Version", info.result.version], ["Process", info.result.pid], ["Up", age(Date.now() / 1000 - info.result.uptime)], ["Runs VMs by", info.result.accelerator],
    ["Sandboxes", info.result.sandboxes], ["Connections", info.result.connections], ["Operations", info.result.operations], ...Object.entries(info.result.paths).map(([k, v]) => [`Path: ${k}`, v])];
  return html`<div class="head"><h1>This host</h1></div>
    <div class="two"><section class="card"><h2>Daemon</h2><${Failure} error=${info.error} />
      ${memory && html`<div class="usage wide"><div><small>Memory in use</small><b>${bytes((memory.total_mb - memory.available_mb) * mb)} of ${bytes(memory.total_mb * mb)}</b><${Meter} part=${1 - memory.available_mb / memory.total_mb} /></div>
        <div><small>Promised to VMs</small><b>${bytes(memory.committed_mb * mb)}</b><${Meter} part=${memory.committed_mb / memory.total_mb} /></div></div>`}
      ${rows && html`<dl class="wide">${rows.map(([name, value]) => html`<dt>${name}</dt><dd class="mono">${plain(value)}</dd>`)}</dl>`}</section>
    <section class="card"><h2>Doctor</h2><${Failure} error=${doctor.error} />
      ${doctor.result ? html`<table class="doctor"><tbody>${doctor.result.checks.map((one) => html`<tr><td><${Badge} state=${one.state} /></td><td><b>${plain(one.name)}</b> <small>${one.driver}</small><div class="dim">${plain(one.detail)}</div>
        ${one.fix && html`<pre>${plain(one.fix)}</pre>`}</td></tr>`)}</tbody></table>` : html`<p class="dim">Looking…</p>`}</section></div>`;
}
