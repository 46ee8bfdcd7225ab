// Nodes in groups: by zone, node pool, or the value of a label or taint.
import { cut, inOrder } from "./words.js";

const ZONE = "topology.kubernetes.io/zone";
const POOLS = ["cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool", "node.kubernetes.io/instance-type"];
const LONGEST = 28; // characters of a key in the list
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

// A key is called by what stands after its prefix, unless another one is called so too.
export function called(way, all) {
  const short = (each) => each.slice(each.indexOf(":") + 1).split("/").pop();
  const isOne = all.filter((each) => short(each) === short(way)).length === 1;
  return isOne ? short(way) : cut(way.slice(way.indexOf(":") + 1), LONGEST);
}

const MOST = [2, 3, 4, 5, 6, 7, 8, 10]; // tiles for which there is room side by side, on screens of all widths
const FEWEST = 0.6; // of those: tiles that are wider than they need to be waste as much as a gap does

// The number of tiles side by side with which groups of these sizes take the fewest rows, for each width: --columns-MOST.
export const columns = (sizes) => Object.fromEntries(MOST.map((most) => {
  let best = most;
  for (let number = most; number >= most * FEWEST; number--) if (rows(sizes, number) <= rows(sizes, best)) best = number;
  return [`--columns-${most}`, best];
}));

// Groups stand beside each other as long as there is room for the whole of the next one.
function rows(sizes, number) {
  let [all, taken] = [0, number];
  for (const size of sizes) {
    if (taken + size > number) [all, taken] = [all + Math.ceil(size / number), 0];
    taken += size;
  }
  return all;
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
