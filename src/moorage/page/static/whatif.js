// What if: changes that are played on a copy of the cluster. Nothing is applied.
import { go } from "./address.js";
import { Copy } from "./copy.js";
import { Cut } from "./cut.js";
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { NODE_DRAGGED } from "./map.js";
import { command, said } from "./said.js";
import { ask } from "./session.js";
import { count, inOrder, nameOf, namespaceOf, span } from "./words.js";

const SHOWN = 12;
const CHOICES = 1000;
const ONCE = ["feature-gates"]; // options of the command that count for all changes

// The changes in an address, which anybody may have written.
const isChange = (each) => Array.isArray(each) && each.length > 1 && each.every((part) => typeof part === "string");
export const changesOf = (address) => {
  try {
    const changes = JSON.parse(address.whatif || "[]");
    return Array.isArray(changes) && changes.every(isChange) ? changes : [];
  } catch {
    return [];
  }
};
const set = (changes) => go({ whatif: changes.length ? JSON.stringify(changes) : "", panel: "whatif", pod: "", template: "", node: "", rules: "", at: "" });

function add(address, ...added) {
  const once = added.map(([name]) => name).filter((name) => ONCE.includes(name));
  set([...changesOf(address).filter(([name]) => !once.includes(name)), ...added]);
}

// The answer to the changes in the address; asked for again when they change, but not before the last answer has come.
export function useWhatIf(address) {
  const [answer, tell] = useState(null);
  const wanted = useRef("");
  const isPlaying = useRef(false);
  const play = async () => {
    isPlaying.current = true;
    for (let played = ""; wanted.current !== played;) {
      played = wanted.current;
      const found = played && await ask("simulate", JSON.parse(played)).then((said) => said.json()).catch((error) => ({ problem: error.message }));
      if (wanted.current === played) tell(found || null);
    }
    isPlaying.current = false;
  };
  useEffect(() => {
    wanted.current = changesOf(address).length ? address.whatif : "";
    if (wanted.current) tell((before) => ({ ...before, asking: true, problem: "" }));
    else tell(null);
    if (wanted.current && !isPlaying.current) play();
  }, [address.whatif]);
  return answer;
}

// What is changed about a node, in a word or two.
const MADE = {
  drain: () => "drained", cordon: () => "cordoned", uncordon: () => "uncordoned", "remove-nodes": () => "taken out",
  taint: (taint) => `+ ${taint}`, untaint: (taint) => `− ${taint}`,
};

// The names that new nodes get: those of the node that they are like, with the first numbers that are free.
function newNodes(changes, taken) {
  const names = new Set();
  changes.forEach(([option, number], at) => {
    const like = option === "add-nodes" && changes[at + 1]?.[1];
    for (let next = 1, left = like ? Number(number) : 0; left > 0; next++) {
      const name = `${like}-${next}`;
      if (taken.has(name) || names.has(name)) continue;
      names.add(name);
      left--;
    }
  });
  return [...names].slice(0, CHOICES);
}

// What is changed about each node, and what it would lose and get, as verdicts for the map.
export function differences(answer, changes, known) {
  if (!answer?.after) return null;
  const nodes = new Map();
  const at = (name) => { if (!nodes.has(name)) nodes.set(name, { made: [], leaves: new Set(), arrives: [] }); return nodes.get(name); };
  const { moved, evicted, placed, lost, deleted, pending } = answer.after;
  for (const [option, node, more] of changes) if (MADE[option]) at(node).made.push(MADE[option](more));
  for (const name of newNodes(changes, known)) at(name);
  for (const each of [...moved.map((move) => ({ pod: move.pod, node: move.from })), ...evicted, ...lost, ...deleted]) {
    if (each.node) at(each.node).leaves.add(each.pod);
  }
  for (const each of [...moved.map((move) => ({ pod: move.replacement, node: move.to })), ...placed]) if (each.node) at(each.node).arrives.push(each.pod);
  const verdicts = new Map();
  for (const [name, { made, leaves, arrives }] of nodes) {
    const text = [...made, leaves.size && `loses ${count(leaves.size, "pod")}`, arrives.length && `gets ${count(arrives.length, "pod")}`].filter(Boolean).join(", ");
    const verdict = leaves.size ? (arrives.length ? "changes" : "loses") : arrives.length || !known.has(name) ? "gets" : "altered";
    verdicts.set(name, { verdict, text: text || "gets no pod", leaves, arrives });
  }
  verdicts.stuck = pending.length;
  return verdicts;
}

export function NodeChanges({ node, address }) {
  const [taint, type] = useState("");
  const [copies, number] = useState("1");
  const tainted = (event) => { event.preventDefault(); if (taint) add(address, ["taint", node.name, taint]); };
  const more = (event) => { event.preventDefault(); if (copies > 0) add(address, ["add-nodes", copies], ["like", node.name]); };
  return html`<div class="would"><h3>What if</h3>
    <button onClick=${() => add(address, ["drain", node.name])}>Drain it</button>
    <button onClick=${() => add(address, [node.cordoned ? "uncordon" : "cordon", node.name])}>${node.cordoned ? "Uncordon it" : "Cordon it"}</button>
    <button onClick=${() => add(address, ["remove-nodes", node.name])}>Take it out</button>
    ${node.taints.map((each) => html`<button key=${each} onClick=${() => add(address, ["untaint", node.name, bare(each)])}>Remove taint <code>${each}</code></button>`)}
    <form onSubmit=${tainted}><input aria-label="Taint" placeholder="key=value:NoExecute" value=${taint} onInput=${(event) => type(event.target.value)} /> <button>Add taint</button></form>
    <form onSubmit=${more}><input type="number" min="1" max="1000" aria-label="How many nodes" value=${copies} onInput=${(event) => number(event.target.value)} /> <button>Add nodes like it</button></form></div>`;
}

// A taint without its value: key:Effect.
const bare = (taint) => taint.replace(/=[^:]*:/, ":");

export function WorkloadChanges({ template, pods, address }) {
  const [replicas, type] = useState("");
  const owner = nameOf(template);
  if (!SCALED.test(owner)) return null;
  const scale = () => replicas && add(address, scaleOf(owner, namespaceOf(template), replicas));
  return html`<form class="would" onSubmit=${(event) => { event.preventDefault(); scale(); }}><h3>What if</h3>
    <input type="number" min="0" required aria-label="Replicas" placeholder=${pods} value=${replicas} onInput=${(event) => type(event.target.value)} /> replicas <button>Scale it</button></form>`;
}

// Every gate is named: those that an option does not name count as off.
const gatesBut = (gates, off) => gates.map((gate) => `${gate}=${!off.includes(gate)}`).join(",");
const offIn = (changes) => (changes.find(([name]) => name === "feature-gates")?.[1] || "").split(",").filter((each) => each.endsWith("=false")).map((each) => each.slice(0, -6));

// What can be different: [the option, its name, of what, and what else must be said].
const MAKES = [
  ["drain", "drain", "node"], ["cordon", "cordon", "node"], ["remove-nodes", "take out", "node"], ["taint", "taint", "node", "key=value:NoExecute"],
  ["like", "add nodes like", "node", "how many"], ["scale", "scale", "workload", "replicas"],
];
const SCALED = /^(Deployment|ReplicaSet|StatefulSet)\//;
const scaleOf = (owner, namespace, replicas) => {
  const [kind, name] = owner.split("/");
  return ["scale", `${kind.toLowerCase()}/${namespace}/${name}=${replicas}`];
};

// One change, put together from its parts: the same as on a node or a pod, where the mouse or the screen does not reach.
function Maker({ address, placement }) {
  const [made, make] = useState({ option: "drain", of: "", more: "" });
  const [, , kind, hint] = MAKES.find(([option]) => option === made.option);
  const choices = useMemo(() => (kind === "node" ? [...placement.nodes.keys()].sort(inOrder)
    : [...new Set([...placement.pods.values()].filter((pod) => SCALED.test(pod.owner)).map((pod) => `${namespaceOf(pod.key)}/${pod.owner}`))].sort()), [kind, placement.places, placement.pods.size]);
  const submit = (event) => {
    event.preventDefault();
    const { option, of, more } = made;
    if (option === "like") add(address, ["add-nodes", more], ["like", of]);
    else if (option === "scale") add(address, scaleOf(nameOf(of), namespaceOf(of), more));
    else add(address, hint ? [option, of, more] : [option, of]);
    make({ ...made, of: "", more: "" });
  };
  const type = (name) => (event) => make({ ...made, [name]: event.target.value });
  return html`<form class="would" onSubmit=${submit}>
    <select aria-label="What" value=${made.option} onChange=${(event) => make({ option: event.target.value, of: "", more: "" })}>${MAKES.map(([option, name]) => html`<option key=${option} value=${option}>${name}</option>`)}</select>
    <input required aria-label=${kind} placeholder=${kind} list="what-if" value=${made.of} onInput=${type("of")} autocomplete="off" spellcheck="false" />
    <datalist id="what-if">${choices.slice(0, CHOICES).map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
    ${hint && html`<input required aria-label=${hint} placeholder=${hint} type=${made.option === "taint" ? "text" : "number"} min=${made.option === "like" ? 1 : 0} value=${made.more} onInput=${type("more")} />`}
    <button class="main">Try it</button></form>`;
}

export function WhatIf({ address, answer, gates, placement }) {
  const changes = changesOf(address);
  const [isOver, over] = useState(false);
  const names = Object.keys(gates);
  const off = offIn(changes);
  const drop = (event) => {
    event.preventDefault();
    over(false);
    const node = event.dataTransfer.getData(NODE_DRAGGED);
    if (node) add(address, ["remove-nodes", node]);
  };
  return html`<section class="whatif"><h2>What if</h2>
    <${Maker} address=${address} placement=${placement} />
    <p class="drop wide ${isOver ? "over" : ""}" onDragOver=${(event) => { event.preventDefault(); over(true); }} onDragLeave=${() => over(false)} onDrop=${drop}>Or drag a node here to take it out of the cluster.</p>
    ${names.length > 0 && html`<label class="dim">turn off <select value="" onChange=${(event) => event.target.value && add(address, ["feature-gates", gatesBut(names, [...off, event.target.value])])}>
      <option value="">a gate…</option>${names.filter((gate) => !off.includes(gate)).map((gate) => html`<option key=${gate}>${gate}</option>`)}</select></label>`}
    <ol class="made">${steps(changes).map(([at, ...options]) => html`<li key=${at}><code>${options.map((option) => (ONCE.includes(option[0]) ? `gates off: ${offIn([option]).join(", ")}` : `--${option.join(" ")}`)).join(" ")}</code>
      <button aria-label=${`Take back ${options[0].join(" ")}`} onClick=${() => set(changes.filter((each) => !options.includes(each)))}>×</button></li>`)}</ol>
    ${answer?.asking && html`<p class="dim" role="status">playing it…</p>`}
    ${answer?.problem && html`<p class="message" role="alert">${answer.problem}</p>`}
    ${answer?.after && changes.length > 0 && html`<${Outcome} answer=${answer} />`}
  </section>`;
}

// Each change with its place; new nodes and what they are like are two options, and go together.
const steps = (changes) => changes.map((change, at) => [at, change, ...(changes[at + 1]?.[0] === "like" ? [changes[at + 1]] : [])]).filter(([, [option]]) => option !== "like");

function Outcome({ answer }) {
  const { moved, evicted, pending, lost, blocked, placed, refused, restless, deleted } = answer.after;
  const quiet = ![moved, evicted, pending, lost, blocked, placed, refused, restless, deleted].some((list) => list.length);
  const name = (key) => html`<span class="name"><${Cut} text=${nameOf(key)} /></span>`;
  return html`<div role="status" class=${answer.asking ? "stale" : ""}><p class="verdict">${quiet ? "Nothing would happen to any pod." : answer.atRest ? `After ${span(answer.seconds)} nothing happens any more.` : `After ${span(answer.seconds)} it still goes on.`}</p>
    <${List} title="move" of=${moved} line=${(each) => html`${name(each.pod)} <span class="dim">${each.from || "no node"} → ${each.to}</span>`} />
    <${List} title="placed" of=${placed} line=${(each) => html`${name(each.pod)} <span class="dim">on ${each.node}</span>`} />
    <${List} title="end without a node" of=${pending} ill line=${(each) => html`${name(each.pod)} <span class="dim">${said(each.reason)}</span>`} />
    <${List} title="lost: nobody replaces them" of=${lost} ill line=${(each) => html`${name(each.pod)} <span class="dim">${each.cause}</span>`} />
    <${List} title="blocked by a disruption budget" of=${blocked} ill line=${(each) => html`${name(each.pod)} <span class="dim">${each.budget}</span>`} />
    <${List} title="evicted again and again" noun="workload" of=${restless} ill line=${(each) => html`${each.owner} <span class="dim">${each.cause}</span>`} />
    <${List} title="deleted" of=${deleted} line=${(each) => html`${name(each.pod)} <span class="dim">${each.node && `from ${each.node}`}</span>`} />
    <${List} title="refused" noun="object" of=${refused} ill line=${(each) => html`${each.object} <span class="dim">${each.message}</span>`} />
    <${Use} groups=${answer.utilization} />
    ${command(answer.command)}
    <p class="buttons"><${Copy} text=${answer.command}>copy as a command</${Copy}> <${Copy} text=${() => location.href}>copy the address</${Copy}></p></div>`;
}

// What is requested of the nodes, before and after.
function Use({ groups }) {
  const part = (use, of) => (use && use[of].allocatable ? `${Math.round((100 * use[of].requested) / use[of].allocatable)} %` : "–");
  const arrow = (before, after) => (before === after ? before : `${before} → ${after}`);
  const changed = groups.filter(({ before, after }) => JSON.stringify(before) !== JSON.stringify(after));
  if (!changed.length) return null;
  return html`<table class="scores use"><caption>Requested of the nodes</caption><thead><tr><th scope="col">nodes</th><th scope="col">number</th><th scope="col">pods</th><th scope="col">CPU</th><th scope="col">memory</th></tr></thead>
    <tbody>${changed.map(({ group, before, after }) => html`<tr key=${group}><th scope="row">${group}</th><td>${arrow(before?.nodes ?? 0, after?.nodes ?? 0)}</td><td>${arrow(before?.pods ?? 0, after?.pods ?? 0)}</td>
      <td>${arrow(part(before, "cpu"), part(after, "cpu"))}</td><td>${arrow(part(before, "memory"), part(after, "memory"))}</td></tr>`)}</tbody></table>`;
}

function List({ title, of, line, ill, noun = "pod" }) {
  if (!of.length) return null;
  return html`<h3 class=${ill ? "ill" : "well"}><span class="mark" aria-hidden="true">${ill ? "✕" : "→"}</span> ${count(of.length, noun)} ${title}</h3>
    <ul class="outcome">${of.slice(0, SHOWN).map((each, at) => html`<li key=${at}>${line(each)}</li>`)}</ul>${of.length > SHOWN && html`<p class="dim">and ${of.length - SHOWN} more</p>`}`;
}
