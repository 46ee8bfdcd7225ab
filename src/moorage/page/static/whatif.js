// What if: changes that are played on a copy of the cluster. Nothing is applied.
import { go } from "./address.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { ask } from "./session.js";
import { count, cut, nameOf, namespaceOf, span } from "./words.js";

const SHOWN = 12;

export const changesOf = (address) => {
  try { return address.whatif ? JSON.parse(address.whatif) : []; } catch { return []; }
};
const set = (changes) => go({ whatif: JSON.stringify(changes), panel: "whatif", pod: "", node: "" });
const add = (address, ...change) => set([...changesOf(address), ...change]);

// The answer to the changes in the address; asked for again when they change.
export function useWhatIf(address) {
  const [answer, tell] = useState(null);
  const asked = useRef("");
  useEffect(() => {
    const changes = changesOf(address);
    asked.current = address.whatif;
    if (!changes.length) { tell(null); return; }
    tell({ asking: true });
    ask("simulate", changes).then((found) => found.json()).then((found) => found, (error) => ({ problem: error.message }))
      .then((found) => { if (asked.current === address.whatif) tell(found); });
  }, [address.whatif]);
  return answer;
}

// How many pods each node would lose and get.
export function differences(answer) {
  if (!answer?.after) return null;
  const nodes = new Map();
  const at = (name) => { if (name && !nodes.has(name)) nodes.set(name, { loses: 0, gets: 0 }); return nodes.get(name); };
  const { moved, evicted, placed, lost, deleted } = answer.after;
  const left = new Set();
  for (const each of [...moved.map((move) => ({ pod: move.pod, node: move.from })), ...evicted, ...lost, ...deleted]) {
    if (each.node && !left.has(each.pod)) { left.add(each.pod); at(each.node).loses++; }
  }
  for (const each of [...moved.map((move) => ({ node: move.to })), ...placed]) if (each.node) at(each.node).gets++;
  const verdicts = new Map();
  for (const [name, { loses, gets }] of nodes) {
    const text = [loses && `loses ${count(loses, "pod")}`, gets && `gets ${count(gets, "pod")}`].filter(Boolean).join(", ");
    verdicts.set(name, { verdict: loses ? (gets ? "evicted" : "refused") : "fits", text });
  }
  return verdicts;
}

export function NodeChanges({ node, address }) {
  const [taint, type] = useState("");
  return html`<div class="changes"><h3>What if</h3>
    <button onClick=${() => add(address, ["drain", node.name])}>drained</button>
    <button onClick=${() => add(address, [node.cordoned ? "uncordon" : "cordon", node.name])}>${node.cordoned ? "uncordoned" : "cordoned"}</button>
    <button onClick=${() => add(address, ["remove-nodes", node.name])}>gone</button>
    <button onClick=${() => add(address, ["add-nodes", "1"], ["like", node.name])}>one more like it</button>
    <form onSubmit=${(event) => { event.preventDefault(); if (taint) add(address, ["taint", node.name, taint]); }}>
      <input aria-label="Taint" placeholder="key=value:NoExecute" value=${taint} onInput=${(event) => type(event.target.value)} /> <button>tainted</button></form></div>`;
}

export function PodChanges({ pod, address }) {
  const [replicas, type] = useState("");
  if (!/^(Deployment|ReplicaSet|StatefulSet)\//.test(pod.owner)) return null;
  const scale = () => replicas && add(address, ["namespace", namespaceOf(pod.key)], ["scale", `${pod.owner.toLowerCase()}=${replicas}`]);
  return html`<form class="changes" onSubmit=${(event) => { event.preventDefault(); scale(); }}><h3>What if</h3>
    ${pod.owner} had <input type="number" min="0" aria-label="Replicas" value=${replicas} onInput=${(event) => type(event.target.value)} /> replicas <button>try</button></form>`;
}

export function WhatIf({ address, answer, gates }) {
  const changes = changesOf(address);
  const off = Object.keys(gates);
  return html`<section class="whatif"><h2>What if</h2>
    <p class="banner">Nothing is applied: the changes are played on a copy of the cluster.</p>
    ${!changes.length && html`<p class="dim">Select a node or a pod and say what would be different there${off.length ? ", or turn a gate off" : ""}.</p>`}
    <ol class="made">${changes.map((change, at) => html`<li key=${at}><code>--${change.join(" ")}</code>
      <button aria-label=${`Take back ${change.join(" ")}`} onClick=${() => set(changes.filter((_, other) => other !== at))}>×</button></li>`)}</ol>
    ${off.length > 0 && html`<label>turn off <select value="" onChange=${(event) => event.target.value && add(address, ["feature-gates", `${event.target.value}=false`])}>
      <option value="">a gate…</option>${off.map((gate) => html`<option key=${gate}>${gate}</option>`)}</select></label>`}
    ${answer?.asking && html`<p class="dim" role="status">playing it…</p>`}
    ${answer?.problem && html`<p class="message" role="alert">${answer.problem}</p>`}
    ${answer?.after && html`<${Outcome} answer=${answer} />`}
  </section>`;
}

function Outcome({ answer }) {
  const { moved, evicted, pending, lost, blocked, placed, refused } = answer.after;
  const quiet = ![moved, evicted, pending, lost, blocked, placed, refused].some((list) => list.length);
  return html`<div role="status"><p class="verdict">${quiet ? "Nothing would happen." : `After ${span(answer.seconds)}${answer.atRest ? " nothing happens any more." : " it still goes on."}`}</p>
    <${List} title="move" of=${moved} line=${(each) => html`${cut(nameOf(each.pod), 30)} <span class="dim">${each.from} → ${each.to}</span>`} />
    <${List} title="placed" of=${placed} line=${(each) => html`${cut(nameOf(each.pod), 30)} <span class="dim">on ${each.node}</span>`} />
    <${List} title="end without a node" of=${pending} ill line=${(each) => html`${cut(nameOf(each.pod), 30)}<br /><span class="dim">${each.reason}</span>`} />
    <${List} title="lost: nobody replaces them" of=${lost} ill line=${(each) => html`${cut(nameOf(each.pod), 30)} <span class="dim">${each.cause}</span>`} />
    <${List} title="blocked by a disruption budget" of=${blocked} ill line=${(each) => html`${cut(nameOf(each.pod), 30)} <span class="dim">${each.budget}</span>`} />
    <${List} title="refused" of=${refused} ill line=${(each) => html`${each.object} <span class="dim">${each.message}</span>`} />
    <pre>${answer.command}</pre>
    <button onClick=${() => navigator.clipboard.writeText(answer.command)}>copy as a command</button></div>`;
}

function List({ title, of, line, ill }) {
  if (!of.length) return null;
  return html`<h3 class=${ill ? "ill" : "well"}><span class="mark">${ill ? "✕" : "→"}</span> ${count(of.length, "pod").replace("pod", title === "refused" ? "object" : "pod")} ${title}</h3>
    <ul class="outcome">${of.slice(0, SHOWN).map((each, at) => html`<li key=${at}>${line(each)}</li>`)}</ul>${of.length > SHOWN && html`<p class="dim">and ${of.length - SHOWN} more</p>`}`;
}
