// What `why` says of a pod, node by node.
import { ask } from "./session.js";
import { useEffect, useRef, useState } from "./html.js";
import { span } from "./words.js";

const AGAIN = 1500; // milliseconds until a pod is asked about again after the cluster has changed

// The answer about a pod or a template, asked for again while the cluster changes.
export function useWhy(subject, revision) {
  const what = subject ? new URLSearchParams(subject).toString() : "";
  const [answer, set] = useState(null);
  const asked = useRef({ at: 0, what: "" });
  useEffect(() => {
    if (asked.current.what !== what) set(null);
    if (!what) { asked.current = { at: 0, what }; return undefined; } // an answer that is under way is not wanted any more
    const wait = asked.current.what === what ? Math.max(0, asked.current.at + AGAIN - Date.now()) : 0;
    const timer = setTimeout(async () => {
      asked.current = { at: Date.now(), what };
      try {
        const found = await (await ask(`why?${what}`)).json();
        if (asked.current.what === what) set(found);
      } catch (error) {
        if (asked.current.what === what) set({ problem: error.message });
      }
    }, wait);
    return () => clearTimeout(timer);
  }, [what, revision]);
  return answer;
}

// What a reason is about is seen on the tile, except for a resource: a number needs to say of what it is.
const inShort = ({ plugin, subject, reason }) => (plugin === "NodeResourcesFit" ? `${subject}: ${reason}` : reason);

// Refusals that say the same of taints with the same key stand together, those of the most nodes first.
export function folded(refused) {
  const groups = new Map();
  for (const { names, reasons } of refused) {
    const same = JSON.stringify(reasons.map((each) => [each.plugin, keyOf(each.subject), each.reason]));
    const group = groups.get(same) || { names: [], reasons: reasons.map((each) => ({ ...each, subjects: new Set() })) };
    group.names.push(...names);
    reasons.forEach((each, at) => group.reasons[at].subjects.add(each.subject));
    groups.set(same, group);
  }
  return [...groups.values()].sort((a, b) => b.names.length - a.names.length);
}

const keyOf = (subject) => (subject.startsWith("taint ") ? subject.split(/[=:]/)[0] : subject);
export const subjectIn = ({ subject, subjects }) => (subjects.size > 1 ? `${keyOf(subject)} (${subjects.size} values)` : subject);

// That a pod would not stay on nodes that it fits; empty when it would.
export const leaves = ({ evictedAfterSeconds }) =>
  (evictedAfterSeconds === undefined ? "" : `would be evicted ${evictedAfterSeconds ? `after ${span(evictedAfterSeconds)}` : "at once"}`);

// A verdict for every node: { verdict, text }.
export function verdictsOf(answer) {
  if (!answer || !answer.nodes) return null;
  const verdicts = new Map();
  const best = answer.nodes.length ? answer.nodes[0].score : 0;
  for (const fit of answer.nodes) {
    const text = leaves(fit) || `score ${fit.score}`;
    for (const name of fit.names) verdicts.set(name, { verdict: leaves(fit) ? "evicted" : fit.score === best ? "best" : "fits", text, fit });
  }
  for (const refused of answer.refused) {
    const text = refused.reasons.map(inShort).join("; ");
    for (const name of refused.names) verdicts.set(name, { verdict: "refused", text, reasons: refused.reasons });
  }
  if (answer.placedOn && verdicts.has(answer.placedOn)) {
    const there = verdicts.get(answer.placedOn);
    const leaves = answer.evictedFor !== undefined;
    verdicts.set(answer.placedOn, { ...there, verdict: leaves ? "evicted" : "here", text: leaves ? `is evicted${answer.evictedAfterSeconds ? "" : " at once"}: ${answer.evictedFor}` : "runs here" });
  }
  return verdicts;
}
