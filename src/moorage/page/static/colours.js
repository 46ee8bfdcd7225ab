// What colour a pod has: by owner, state, priority or age. The Okabe–Ito colours, which colour-blind people can tell apart.
import { nameOf, stateOf } from "./words.js";

export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a700", "#7a7a7a"];
const GREY = COLOURS.length - 1;
const STATES = { Running: 2, Pending: 4, Unscheduled: 1, Terminating: GREY, Failed: 5, Succeeded: 0 };
const AGES = [[60, "under a minute"], [600, "under 10 min"], [3600, "under an hour"], [86400, "under a day"], [Infinity, "older"]];

const LISTED = 8;

// The number of an owner says its colour. When there are no more colours, the squares of the next ones have a dot.
const owners = new Map();
const numberOf = (owner) => owners.get(owner) ?? owners.set(owner, owners.size).get(owner);

// Those that have most pods come first, so that they all differ, and look the same on every page.
export function meet(pods) {
  const numbers = new Map();
  for (const { owner } of pods) if (owner) numbers.set(owner, (numbers.get(owner) || 0) + 1);
  for (const [owner] of [...numbers].sort(([a, some], [b, more]) => more - some || (a < b ? -1 : 1))) numberOf(owner);
}

// For a pod: the number of its colour, what that means, and whether its square has a dot.
const WAYS = {
  owner: ({ owner }) => (owner ? [numberOf(owner) % GREY, owner, Math.floor(numberOf(owner) / GREY) % 2 === 1] : [GREY, "no owner"]),
  state: (pod) => [STATES[pod.state] ?? GREY, stateOf(pod)],
  priority: (pod) => (pod.priority ? [pod.priority > 1e9 ? 5 : pod.priority > 0 ? 0 : GREY, `priority ${pod.priority}`] : [4, "priority 0"]),
  age: (pod) => {
    const at = AGES.findIndex(([limit]) => Date.now() / 1000 - pod.created < limit);
    return [[1, 4, 0, 2, GREY][at], AGES[at][1]];
  },
};
export const BY = Object.keys(WAYS);
const wayOf = (by) => (BY.includes(by) ? WAYS[by] : WAYS.owner);

export const colourOf = (pod, by) => COLOURS[wayOf(by)(pod)[0]];
export const hasDot = (pod, by) => Boolean(wayOf(by)(pod)[2]);

// The most frequent meanings of colours, and how many others there are.
export function legend(pods, by) {
  const seen = new Map();
  for (const pod of pods) {
    const [at, text, isDotted] = wayOf(by)(pod);
    // A name that workloads of several namespaces share leads to the first.
    const template = by === "owner" && pod.owner ? `${pod.key.slice(0, pod.key.indexOf("/"))}/${pod.owner}` : "";
    const entry = seen.get(text) || { colour: COLOURS[at], isDotted, text, template, number: 0 };
    entry.number++;
    seen.set(text, entry);
  }
  const all = [...seen.values()].sort((a, b) => b.number - a.number);
  return { meanings: all.slice(0, LISTED).map((each) => ({ ...each, name: shortest(each, all) })), others: Math.max(0, all.length - LISTED) };
}

// A workload without its kind, unless one of another kind is called so too.
function shortest({ text, template }, all) {
  const isOne = template && all.filter((each) => each.template && nameOf(each.text) === nameOf(text)).length === 1;
  return isOne ? nameOf(text) : text;
}

// The shape of a pod's square, so that colour is not all that tells states apart.
export const SHAPES = { Running: "full", Succeeded: "full", Pending: "half", Unscheduled: "hollow", Terminating: "fading", Failed: "cross" };
export const shapeOf = (pod, by) => `${SHAPES[pod.state] || "full"} ${hasDot(pod, by) ? "dotted" : ""}`;
