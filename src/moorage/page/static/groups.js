// Nodes in groups: by zone, node pool, or the value of a label or taint.
import { inOrder } from "./words.js";

const ZONE = "topology.kubernetes.io/zone";
const POOLS = ["cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool", "node.kubernetes.io/instance-type"];
const TRIVIAL = new Set(["kubernetes.io/hostname"]);

const keyOf = (taint) => taint.split(/[=:]/)[0];
const valueOf = (taint) => taint.slice(keyOf(taint).length).replace(/^=/, "").replace(/:[^:]*$/, "") || "set";

// What nodes can be grouped by: label:KEY and taint:KEY, the most telling first.
export function ways(nodes) {
  const labels = new Map();
  const taints = new Set();
  for (const node of nodes) {
    for (const [key, value] of Object.entries(node.labels)) {
      if (!labels.has(key)) labels.set(key, new Set());
      if (labels.get(key).size < 65) labels.get(key).add(value);
    }
    node.taints.forEach((taint) => taints.add(keyOf(taint)));
  }
  const telling = [...labels].filter(([key, values]) => !TRIVIAL.has(key) && values.size <= 64).map(([key]) => key).sort();
  const first = [ZONE, ...POOLS].filter((key) => telling.includes(key));
  return [...new Set([...first, ...telling])].map((key) => `label:${key}`).concat([...taints].sort().map((key) => `taint:${key}`));
}

export const usual = (nodes) => (nodes.some((node) => node.labels[ZONE]) ? `label:${ZONE}` : "none");

export function grouped(nodes, way) {
  const colon = way.indexOf(":");
  const kind = way.slice(0, colon);
  const key = way.slice(colon + 1);
  const groups = new Map();
  for (const node of nodes) {
    let name = "";
    if (kind === "label") name = Object.hasOwn(node.labels, key) ? node.labels[key] : "";
    else if (kind === "taint") name = node.taints.filter((taint) => keyOf(taint) === key).map(valueOf).join(", ");
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  const sorted = [...groups].sort(([a], [b]) => (a === "") - (b === "") || inOrder(a, b));
  for (const [, members] of sorted) members.sort((a, b) => inOrder(a.name, b.name));
  return sorted.map(([name, members]) => ({ name: name || (way === "none" ? "" : `no ${key}`), nodes: members }));
}
