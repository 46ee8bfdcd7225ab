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
    if (!what) return set(null);
    if (asked.current.what !== what) set(null);
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

// A verdict for every node: { verdict, text }.
export function verdictsOf(answer) {
  if (!answer || !answer.nodes) return null;
  const verdicts = new Map();
  const best = answer.nodes.length ? answer.nodes[0].score : 0;
  for (const fit of answer.nodes) {
    const leaves = fit.evictedAfterSeconds !== undefined;
    const text = leaves ? `would be evicted ${fit.evictedAfterSeconds ? `after ${span(fit.evictedAfterSeconds)}` : "at once"}` : `score ${fit.score}`;
    for (const name of fit.names) verdicts.set(name, { verdict: leaves ? "evicted" : fit.score === best ? "best" : "fits", text, fit });
  }
  for (const refused of answer.refused) {
    const text = refused.reasons.map((reason) => reason.reason).join("; ");
    for (const name of refused.names) verdicts.set(name, { verdict: "refused", text, reasons: refused.reasons });
  }
  if (answer.placedOn && verdicts.has(answer.placedOn)) {
    const there = verdicts.get(answer.placedOn);
    const leaves = answer.evictedFor !== undefined;
    const when = answer.evictedAfterSeconds ? `after ${span(answer.evictedAfterSeconds)}` : "at once";
    verdicts.set(answer.placedOn, { ...there, verdict: leaves ? "evicted" : "here", text: leaves ? `is evicted ${when}: ${answer.evictedFor}` : "runs here" });
  }
  return verdicts;
}
