// images.js - the images of this host, and building them.
import { html, useState } from "/vendor/preact.js";
import { Act, age, bytes, Empty, Failure, plain, useAnswer } from "/parts.js";
import { useWork } from "/sandbox.js";

export function Images() {
  const { result, error, again } = useAnswer("image.ls", {}, 10000);
  const templates = useAnswer("template.ls", {}, 10000);
  const [name, setName] = useState("");
  const [run, working, busy] = useWork();
  const build = (e) => {
    e.preventDefault();
    run(`Building ${name}`, "image.build", { image: name }, () => { setName(""); again(); });
  };
  const warm = templates.result?.templates || [];
  return html`<div class="head"><h1>Images</h1><span class="grow"></span><form class="bar" onSubmit=${build}>
      <input placeholder="Recipe, such as debian12" aria-label="Recipe" value=${name} onInput=${(e) => setName(e.target.value)} /><${Act} disabled=${busy || !name}>Build</${Act}></form></div>
    ${working}<${Failure} error=${error} />
    ${result && html`<section class="card">${result.images.length ? html`<table><thead><tr><th>Name</th><th>Description</th><th>System</th><th class="num">Size</th><th class="num">Built</th><th class="num">Warm starts</th></tr></thead><tbody>
      ${result.images.map((one) => html`<tr key=${one.digest}><td><b>${plain(one.name)}</b> <small class="mono">${one.digest.slice(0, 12)}</small></td><td>${plain(one.description)}</td>
        <td>${plain(one.os_type)} ${one.arch}</td><td class="num">${bytes(one.size)}</td><td class="num">${age(one.created)} ago</td>
        <td class="num">${warm.filter((t) => t.image === one.digest || t.name === one.name).length || "–"}</td></tr>`)}</tbody></table>`
      : html`<${Empty} title="No images yet">An image is built when a sandbox needs it first.</${Empty}>`}
      ${result.damaged.map((one) => html`<div class="notice bad">${plain(one.name)}: ${plain(one.error)}</div>`)}</section>`}
    ${warm.length > 0 && html`<section class="card"><h2>Templates for warm starts</h2><table><thead><tr><th>Image</th><th class="num">Memory</th><th class="num">Processors</th><th class="num">NICs</th><th>Runs by</th><th class="num">Size</th><th>In memory</th></tr></thead><tbody>
      ${warm.map((one) => html`<tr key=${one.key}><td>${plain(one.name)} <small class="mono">${one.key.slice(0, 12)}</small></td><td class="num">${bytes(one.ram_mb * 1048576)}</td><td class="num">${one.vcpus}</td><td class="num">${one.nics}</td><td>${one.accelerator}</td><td class="num">${bytes(one.size)}</td><td>${one.in_memory ? "yes" : "no"}</td></tr>`)}</tbody></table></section>`}`;
}
