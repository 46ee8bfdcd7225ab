// What colour a pod has: by owner, state, priority or age. The Okabe–Ito colours, which colour-blind people can tell apart.
export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a700", "#7a7a7a"];
const STATES = { Running: 2, Pending: 4, Unscheduled: 1, Terminating: 7, Failed: 5, Succeeded: 0 };
const AGES = [[60, "under a minute"], [600, "under 10 min"], [3600, "under an hour"], [86400, "under a day"], [Infinity, "older"]];

const LISTED = 8;

// Owners get colours in the order in which they are first seen, so that the first few all differ.
const owners = new Map();
function colourOfOwner(owner) {
  if (!owners.has(owner)) owners.set(owner, owners.size % (COLOURS.length - 1));
  return owners.get(owner);
}

const WAYS = {
  owner: (pod) => (pod.owner ? [colourOfOwner(pod.owner), pod.owner] : [7, "no owner"]),
  state: (pod) => [STATES[pod.state] ?? 7, pod.state],
  priority: (pod) => (pod.priority ? [pod.priority > 1e9 ? 5 : pod.priority > 0 ? 0 : 7, `priority ${pod.priority}`] : [4, "priority 0"]),
  age: (pod) => {
    const at = AGES.findIndex(([limit]) => Date.now() / 1000 - pod.created < limit);
    return [[1, 4, 0, 2, 7][at], AGES[at][1]];
  },
};
export const BY = Object.keys(WAYS);
const wayOf = (by) => (BY.includes(by) ? WAYS[by] : WAYS.owner);

export const colourOf = (pod, by) => COLOURS[wayOf(by)(pod)[0]];

// The most frequent meanings of colours, and how many others there are.
export function legend(pods, by) {
  const seen = new Map();
  for (const pod of pods) {
    const [at, text] = wayOf(by)(pod);
    // A name that workloads of several namespaces share leads to the first.
    const template = by === "owner" && pod.owner ? `${pod.key.slice(0, pod.key.indexOf("/"))}/${pod.owner}` : "";
    const entry = seen.get(text) || { colour: COLOURS[at], text, template, number: 0 };
    entry.number++;
    seen.set(text, entry);
  }
  const all = [...seen.values()].sort((a, b) => b.number - a.number);
  return { meanings: all.slice(0, LISTED), others: Math.max(0, all.length - LISTED) };
}

// The shape of a pod's square, so that colour is not all that tells states apart.
export const SHAPES = { Running: "full", Succeeded: "full", Pending: "half", Unscheduled: "hollow", Terminating: "fading", Failed: "cross" };
