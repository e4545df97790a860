// topology.js - a sandbox's networks, drawn. The rules are those of `moat net --svg`: networks are
// lines below each other, named at the left with what they let out; each NIC has a column of its
// own, so that no line meets a label; long texts are cut, and whole in the tip.
import { html } from "/vendor/preact.js";
import { plain } from "/parts.js";

const GUTTER = 230, NIC = 128, GAP = 24, VM_MIN = 190, TOP = 14, BOX = 58, LINE = 16, RULES_MAX = 6;

const cut = (text, max) => (text.length > max ? text.slice(0, max - 1) + "…" : text);

// What a network lets out, a line for each rule.
export function rulesOf(vnet) {
  const egress = vnet.egress;
  if (typeof egress === "string") return { word: egress === "deny" ? "closed" : egress, rules: [] };
  const allow = egress?.allow || {};
  const rules = [...(allow.domains || []), ...(allow.cidrs || []), ...(allow.ports || []).map((port) => `port ${port}`)];
  return { word: "only", rules };
}

const Label = ({ x, y, text, max = 30, kind = "", anchor }) =>
  html`<text x=${x} y=${y} class=${kind} text-anchor=${anchor}><title>${text}</title>${cut(text, max)}</text>`;

function layout(net, vms) {
  const rows = [];
  let y = TOP + BOX + 46;
  for (const vnet of net.vnets) {
    const { word, rules } = rulesOf(vnet);
    const shown = rules.length > RULES_MAX ? [...rules.slice(0, RULES_MAX - 1), `and ${rules.length - RULES_MAX + 1} more`] : rules;
    const refused = [...net.refused.names, ...net.refused.connections].filter((r) => r.vnet === vnet.alias).reduce((n, r) => n + r.count, 0);
    rows.push({ vnet, word, rules: shown, all: rules, refused, y });
    y += Math.max(64, 26 + LINE * (1 + shown.length + (refused ? 1 : 0)));
  }
  const columns = [];
  let x = GUTTER + 20;
  for (const vm of vms) {
    const nics = net.nics.filter((nic) => nic.vm === vm.name);
    const width = Math.max(VM_MIN, nics.length * NIC + 20);
    columns.push({ vm, nics, x, width });
    x += width + GAP;
  }
  return { rows, columns, width: Math.max(x, GUTTER + 260), height: y + 4 };
}

function Vm({ column, forwards, choose }) {
  const { vm, x, width } = column;
  const letters = Math.floor((width - 24) / 7.4);
  const ports = forwards.filter((f) => f.vm === vm.name).map((f) => `${f.host_port}→${f.port}`).join(" ");
  return html`<g class="vm ${vm.state}" onClick=${choose} tabindex="0" role="link">
    <rect x=${x} y=${TOP} width=${width} height=${BOX} rx="8" />
    <circle cx=${x + 16} cy=${TOP + 20} r="4.5" />
    <${Label} x=${x + 28} y=${TOP + 25} text=${plain(vm.name)} max=${letters - 2} kind="name" />
    <${Label} x=${x + 14} y=${TOP + 45} text=${ports ? "port " + ports : plain(vm.image)} max=${letters} kind="small ${ports ? "port" : ""}" /></g>`;
}

function Net({ row, width }) {
  const { vnet, word, rules, all, refused, y } = row;
  let line = y + 4;
  const next = () => (line += LINE);
  return html`<g class="net ${word}">
    <line x1=${GUTTER} y1=${y} x2=${width - 12} y2=${y} />
    <${Label} x="12" y=${y + 4} text=${plain(vnet.alias)} max=${26} kind="name" />
    <${Label} x="12" y=${next()} text=${vnet.subnets.map((s) => s.cidr).join(", ") || "no addresses"} kind="small mono" />
    <text x="12" y=${next()} class="small out"><title>${all.join("\n")}</title>${word === "closed" ? "nothing gets out" : word === "only" ? "lets out only:" : `out: ${word}`}</text>
    ${rules.map((rule) => html`<${Label} x="22" y=${next()} text=${plain(rule)} max=${29} kind="small mono" />`)}
    ${refused > 0 && html`<text x="12" y=${next()} class="small refused">${refused} refused</text>`}</g>`;
}

export function Topology({ net, vms, choose }) {
  const drawn = layout(net, vms);
  const rowOf = (alias) => drawn.rows.find((row) => row.vnet.alias === alias);
  return html`<svg class="topology" role="img" aria-label="The networks of this sandbox" width=${drawn.width} height=${drawn.height}
      viewBox="0 0 ${drawn.width} ${drawn.height}">
    ${drawn.rows.map((row) => html`<${Net} row=${row} width=${drawn.width} />`)}
    ${drawn.columns.map((column) => column.nics.map((nic, i) => {
      const x = column.x + 18 + i * NIC, row = rowOf(nic.vnet);
      return row && html`<g class="nic"><line x1=${x} y1=${TOP + BOX} x2=${x} y2=${row.y} /><circle cx=${x} cy=${row.y} r="4" />
        <text x=${x + 8} y=${row.y - 9} class="small mono"><title>${nic.mac}</title>${nic.lease || nic.ipv4 || "no address"}</text></g>`;
    }))}
    ${drawn.columns.map((column) => html`<${Vm} column=${column} forwards=${net.forwards} choose=${() => choose(column.vm.name)} />`)}
  </svg>`;
}
