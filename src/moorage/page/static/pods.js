// The list of pods: those that wait first, each with its reason; those that will be evicted; the rest.
import { choosePod, go, to } from "./address.js";
import { colourOf, shapeOf } from "./colours.js";
import { Cut } from "./cut.js";
import { html, useEffect, useMemo, useReducer } from "./html.js";
import { count, inOrder, nameOf, namespaceOf, span, stateOf } from "./words.js";

const SHOWN = 200;
const NODES = 12;

export function Pods({ placement, address }) {
  const fits = (pod) => isFound(pod, address.find);
  const waiting = placement.unplaced.filter(fits);
  const leaving = [...placement.doomed].map((key) => placement.pods.get(key)).filter(fits).sort((a, b) => a.evictAt - b.evictAt);
  const rest = placed(placement, address.find);
  const nodes = address.find ? [...placement.nodes.keys()].filter((name) => has(name, address.find)).sort(inOrder) : [];
  const found = waiting.length + leaving.length + rest.number + nodes.length;
  return html`<nav class="pods" aria-label="pods">
    <input type="search" placeholder="Pod, owner or node" aria-label="Find a pod, owner or node" value=${address.find}
      onInput=${(event) => go({ find: event.target.value }, { replace: true })} />
    <div class="scroll">
      ${nodes.length > 0 && html`<section><h2>Nodes <span class="dim">${nodes.length.toLocaleString("en")}</span></h2>
        <ul>${nodes.slice(0, NODES).map((name) => html`<li key=${name} class=${address.node === name ? "chosen" : ""}><a class="node" ...${to({ node: name })}><${Cut} text=${name} /><span class="place">${count(placement.podsOn(name).size, "pod")}</span></a></li>`)}</ul>
        ${nodes.length > NODES && html`<p class="hint">and ${(nodes.length - NODES).toLocaleString("en")} more</p>`}</section>`}
      <${Part} title="Pending" pods=${waiting} address=${address} place=${() => ""} line=${(pod) => shortReason(pod.reason) || "not tried yet"} />
      <${Part} title="Evicted soon" pods=${leaving} address=${address} place=${(pod) => html`<${Countdown} to=${pod.evictAt} />`} line=${(pod) => `on ${pod.node}`} />
      <${Part} title="Placed" pods=${rest.shown} number=${rest.number} address=${address} place=${(pod) => html`${pod.state === "Running" ? "" : `${stateOf(pod)} `}<${Cut} text=${pod.node || "no node"} />`} />
      ${!found && placement.epoch && html`<p class="hint">${address.find ? `No pod, owner or node has “${address.find}” in its name.` : "There are no pods yet."}</p>`}
    </div>
  </nav>`;
}

function Part({ title, pods, number = pods.length, line, place, address }) {
  if (!pods.length) return null;
  return html`<section><h2>${title} <span class="dim">${number.toLocaleString("en")}</span></h2>
    <ul>${pods.slice(0, SHOWN).map((pod) => html`<${Row} key=${pod.key} pod=${pod} line=${line} place=${place} chosen=${address.pod === pod.key} colour=${address.colour} here=${location.hash} />`)}</ul>
    ${number > SHOWN && html`<p class="hint">and ${(number - SHOWN).toLocaleString("en")} more: search for them</p>`}
  </section>`;
}

// Drawn anew only when something about it has changed: hundreds of rows stand still while others move.
const Row = ({ pod, line, place, chosen, colour, here }) => useMemo(() => html`<li class=${chosen ? "chosen" : ""}>
  <a ...${to(choosePod(pod.key))} title=${pod.key}>
    <i class="pod ${shapeOf(pod, colour)}" style=${{ "--colour": colourOf(pod, colour) }}></i>
    <span class="name"><${Cut} text=${namespaceOf(pod.key) === "default" ? nameOf(pod.key) : pod.key} /></span>
    <span class="place">${place(pod)}</span>
    ${line && html`<span class="line" title=${pod.reason}>${line(pod)}</span>`}
  </a></li>`, [pod, chosen, colour, here, colour === "age" && Math.floor(Date.now() / 10_000)]);

export function Countdown({ to }) {
  const [, tick] = useReducer((number) => number + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="countdown">in ${span(to - Date.now() / 1000)}</span>`;
}

// The first pods that are on nodes, and how many there are: not all are looked at when nobody searches.
function placed(placement, find) {
  const shown = [];
  let number = 0;
  for (const pod of placement.pods.values()) {
    if (!find && shown.length === SHOWN) {
      return { shown, number: placement.pods.size - placement.unplaced.length - placement.doomed.size };
    }
    if (pod.state === "Unscheduled" || placement.doomed.has(pod.key) || !isFound(pod, find)) continue;
    number++;
    if (shown.length < SHOWN) shown.push(pod);
  }
  return { shown, number };
}

const has = (name, find) => name.toLowerCase().includes(find.toLowerCase());

export function isFound(pod, find) {
  if (!find) return true;
  return has(pod.key, find) || has(pod.owner, find) || has(pod.node, find);
}

// What is said of every node is left out of Kubernetes' words, so that a reason fits in one line.
const SHORTER = [
  [/^\d+\/\d+ nodes are available: /, ""], [/node\(s\) (had |were )?/g, ""], [/didn't match Pod's /g, ""], [/didn't have (free ports).*/g, "no $1"],
  [/didn't satisfy existing pods /g, ""], [/didn't match pod /g, ""],
];

// As many reasons as there are, of which that of the most nodes is told first.
export function shortReason(reason) {
  const parts = reason.split(". ")[0].replace(/\.$/, "").replace(SHORTER[0][0], "").split(", ");
  parts.sort((a, b) => (parseInt(b) || 0) - (parseInt(a) || 0));
  return parts.map((part) => SHORTER.reduce((text, [long, short]) => text.replace(long, short), part).replace(/^\d+(?= )/, (number) => `${count(Number(number), "node")}:`)).join(", ");
}
