// pcap.js - reads a recording as it comes, and counts its packets by who talks with whom. What guests
// have sent is bounded: so many flows, so many bytes of a packet.
const FLOWS_MAX = 500, PACKET_MAX = 262144;
const PORTS = { 53: "DNS", 67: "DHCP", 68: "DHCP", 80: "HTTP", 443: "HTTPS", 22: "SSH", 123: "NTP", 5353: "mDNS" };

const ipv4 = (p, at) => `${p[at]}.${p[at + 1]}.${p[at + 2]}.${p[at + 3]}`;
const u16 = (p, at) => (p[at] << 8) | p[at + 1];

function ipv6(p, at) {
  const words = [];
  for (let i = 0; i < 16; i += 2) words.push(u16(p, at + i).toString(16));
  return words.join(":").replace(/(^|:)0(:0)+(:|$)/, "::");
}

const mac = (p, at) => Array.from(p.subarray(at, at + 6), (b) => b.toString(16).padStart(2, "0")).join(":");

function dnsName(p, at) {
  const labels = [];
  for (let left = 20; left-- && at < p.length && p[at] && p[at] < 64; at += p[at] + 1)
    labels.push(String.fromCharCode(...p.subarray(at + 1, at + 1 + p[at])));
  return labels.join(".");
}

function transport(p, at, protocol, from, to) {
  if ((protocol !== 6 && protocol !== 17) || at + 8 > p.length)
    return { protocol: { 1: "ICMP", 58: "ICMPv6", 2: "IGMP" }[protocol] || `IP ${protocol}`, from, to, note: "" };
  const a = u16(p, at), b = u16(p, at + 2);
  const known = PORTS[b] || PORTS[a];
  let note = "";
  if (protocol === 17 && (a === 53 || b === 53) && p.length > at + 20) note = (b === 53 ? "? " : "= ") + dnsName(p, at + 20);
  if (protocol === 6 && p.length > at + 13)
    note = [[2, "SYN"], [1, "FIN"], [4, "RST"]].filter(([bit]) => p[at + 13] & bit).map(([, name]) => name).join(" ");
  // The one with the lower port serves: both directions are one flow.
  const server = b <= a;
  return { protocol: known ? `${protocol === 6 ? "TCP" : "UDP"} ${known}` : protocol === 6 ? "TCP" : "UDP", from: server ? from : to, to: server ? to : from, port: Math.min(a, b), note };
}

function packet(p) {
  let at = 12;
  while (at + 4 < p.length && (u16(p, at) === 0x8100 || u16(p, at) === 0x88a8)) at += 4;
  const type = u16(p, at);
  at += 2;
  if (type === 0x0800 && p.length >= at + 20)
    return transport(p, at + (p[at] & 15) * 4, p[at + 9], ipv4(p, at + 12), ipv4(p, at + 16));
  if (type === 0x86dd && p.length >= at + 40)
    return transport(p, at + 40, p[at + 6], ipv6(p, at + 8), ipv6(p, at + 24));
  if (type === 0x0806 && p.length >= at + 28)
    return { protocol: "ARP", from: ipv4(p, at + 14), to: ipv4(p, at + 24), note: mac(p, at + 8) };
  return { protocol: `0x${type.toString(16).padStart(4, "0")}`, from: mac(p, 6), to: mac(p, 0), note: "" };
}

export const flowName = (flow) => `${flow.from} → ${flow.to}${flow.port ? ":" + flow.port : ""}`;

export function addFlows() {
  const found = new Map();
  let rest = new Uint8Array(0), little = true, started = false, broken = false;
  const take = (data, size) => {
    if (data.length < 14) return;
    const one = packet(data);
    const key = `${one.protocol} ${flowName(one)}`;
    const flow = found.get(key) || (found.size < FLOWS_MAX ? { ...one, key, packets: 0, bytes: 0 } : null);
    if (!flow) return;
    flow.packets++;
    flow.bytes += size;
    if (one.note) flow.note = one.note;
    found.delete(key); // the latest comes last
    found.set(key, flow);
  };
  return {
    add(blob) {
      if (broken) return;
      const all = new Uint8Array(rest.length + blob.length);
      all.set(rest);
      all.set(blob, rest.length);
      const view = new DataView(all.buffer);
      let at = 0;
      if (!started) {
        if (all.length < 24) { rest = all; return; }
        little = view.getUint8(0) !== 0xa1;
        started = true;
        at = 24;
      }
      while (at + 16 <= all.length) {
        const kept = view.getUint32(at + 8, little);
        if (kept > PACKET_MAX) { broken = true; return; }
        if (at + 16 + kept > all.length) break;
        take(all.subarray(at + 16, at + 16 + kept), view.getUint32(at + 12, little));
        at += 16 + kept;
      }
      rest = all.slice(at);
    },
    flows: () => [...found.values()].reverse(),
  };
}
