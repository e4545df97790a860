// files.js - directories of a VM; files go out by a click, and in by being dropped.
import { html, useEffect, useState } from "/vendor/preact.js";
import { call, note, request, store } from "/store.js";
import { bytes, download, Failure, plain } from "/parts.js";

const DOWNLOAD_MAX = 512 * 1024 * 1024, PIECE = 1024 * 1024;

const join = (path, name) => (path.endsWith("/") ? path : path + "/") + name;

const mode = (entry) => {
  const letters = "rwxrwxrwx".split("").map((c, i) => (entry.mode & (256 >> i) ? c : "-")).join("");
  return ({ dir: "d", link: "l", file: "-" }[entry.type] || "?") + letters;
};

async function get(at, path) {
  const parts = [];
  await call("read", { ...at, path, max: DOWNLOAD_MAX }, { data: (blob) => parts.push(blob.slice()) }).done;
  download(path.split("/").pop() || "file", parts);
}

async function put(at, directory, file) {
  const writing = call("write", { ...at, path: join(directory, file.name) }, { input: "stream" });
  for (let from = 0; from < file.size; from += PIECE)
    await writing.write(new Uint8Array(await file.slice(from, from + PIECE).arrayBuffer()));
  writing.eof();
  await writing.done;
}

export function Files({ sandbox, vm }) {
  const [path, setPath] = useState(vm.os_type === "windows" ? "C:\\" : "/"), [typed, setTyped] = useState(path);
  const [entries, setEntries] = useState(null), [error, setError] = useState(null), [over, setOver] = useState(false), [turn, again] = useState(0);
  const at = { sandbox: sandbox.id, vm: vm.name, user: "root" };
  useEffect(() => {
    let late = false;
    setTyped(path);
    request("list", { ...at, path }).then((result) => {
      if (late) return;
      setError(null);
      setEntries(result.entries.sort((a, b) => (b.type === "dir") - (a.type === "dir") || a.name.localeCompare(b.name)));
    }, (e) => late || setError(e));
    return () => { late = true; };
  }, [path, turn, store.wire]);
  const open = (entry) => {
    const whole = join(path, entry.name);
    if (entry.type === "dir" || entry.type === "link") setPath(whole);
    else get(at, whole).catch(note);
  };
  const drop = async (e) => {
    e.preventDefault();
    setOver(false);
    if (!store.acting) return note("The console only looks. Allow changes at the top of the page first.");
    for (const file of e.dataTransfer?.files || e.target.files) {
      try {
        await put(at, path, file);
        note(`${file.name} is in ${path}.`, "good");
      } catch (failure) {
        note(failure);
      }
    }
    again(turn + 1);
  };
  const up = () => setPath(path.replace(/\/?[^/]+\/?$/, "") || "/");
  return html`<section class="card files ${over ? "over" : ""}" onDragOver=${(e) => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <form class="bar" onSubmit=${(e) => { e.preventDefault(); setPath(typed || "/"); }}>
      <button type="button" class="small" onClick=${up} title="Up">↑</button>
      <input class="mono path" aria-label="Directory" value=${typed} onInput=${(e) => setTyped(e.target.value)} />
      <label class="button ${store.acting ? "" : "off"}">Upload<input type="file" multiple disabled=${!store.acting} onChange=${drop} hidden /></label></form>
    <${Failure} error=${error} />
    ${entries && html`<table class="listing"><thead><tr><th>Name</th><th>Mode</th><th class="num">Size</th><th class="num">Changed</th></tr></thead><tbody>
      ${entries.map((entry) => html`<tr key=${entry.name}><td><button class="link ${entry.type}" onClick=${() => open(entry)}>${plain(entry.name || path)}${entry.type === "dir" ? "/" : ""}</button>
        ${entry.target && html`<span class="dim"> → ${plain(entry.target)}</span>`}</td><td class="mono">${mode(entry)}</td><td class="num">${entry.type === "file" ? bytes(entry.size) : ""}</td>
        <td class="num">${new Date(entry.mtime * 1000).toLocaleString()}</td></tr>`)}</tbody></table>`}
    <p class="dim hint">A click on a file downloads it. Files that are dropped here are put into this directory.</p></section>`;
}
