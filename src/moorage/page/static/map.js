// The map: nodes as tiles, pods as squares on them.
import { choosePod, go, to } from "./address.js";
import { colourOf, shapeOf } from "./colours.js";
import { Cut } from "./cut.js";
import { columns, grouped, usual } from "./groups.js";
import { isFound } from "./pods.js";
import { html, useEffect, useLayoutEffect, useRef } from "./html.js";
import { said } from "./said.js";
import { byOwner, bytesOf, count, cpuOf, inOrder, nameOf, stateOf } from "./words.js";

const GLIDE = 200;
export const NODE_DRAGGED = "text/x-moorage-node"; // what a tile carries when it is dragged

export const VERDICTS = {
  fits: ["●", "may run here"],
  best: ["★", "best node"],
  refused: ["✕", "may not run here"],
  evicted: ["◷", "would be evicted"],
  here: ["◆", "runs here"],
  loses: ["✕", "loses pods"],
  gets: ["●", "gets pods"],
  changes: ["⇄", "loses and gets pods"],
  altered: ["△", "is changed, and no pod with it"],
};

export function Map_({ placement, address, verdicts }) {
  const box = useRef();
  const nodes = [...placement.nodes.values()];
  const all = placement.pods;
  const groups = grouped(nodes, address.group || usual(nodes));
  useGlide(box, placement);
  useEffect(() => {
    const { node, pod } = address;
    box.current?.querySelector(`[data-node="${CSS.escape(node || all.get(pod)?.node || "")}"]`)?.scrollIntoView({ block: "nearest" });
  }, [address.node, address.pod, Boolean(verdicts)]);
  if (!nodes.length) {
    return html`<div class="empty"><p>There are no nodes yet.</p><p class="hint">Hollow ones come with <code>moorage up --nodes 3</code>; a kubelet registers its own.</p></div>`;
  }
  const isImagined = address.panel === "whatif";
  return html`<div class="map" ref=${box} style=${columns(groups.map((group) => group.nodes.length))}>
    <${Unplaced} placement=${placement} address=${address} more=${verdicts?.stuck || 0} />
    <${NewNodes} verdicts=${isImagined && verdicts} known=${placement.nodes} />
    ${groups.map((group) => html`<section class="group" key=${group.name} aria-label=${group.name || "nodes"} style=${{ "--own": group.nodes.length }}>
      ${group.name && html`<h3><${Cut} text=${group.name} /> <span class="dim">${count(group.nodes.length, "node")}</span></h3>`}
      <div class="tiles">${group.nodes.map((node) => html`<${Tile} key=${node.name} node=${node} pods=${placement.podsOn(node.name)}
        all=${all} address=${address} verdict=${verdicts?.get(node.name)} movable=${isImagined} />`)}</div>
    </section>`)}
    ${!all.size && html`<p class="hint">Each tile is a node, with what is requested of it; each square on it will be a pod. Some come with <code>kubectl create deployment web --image=nginx --replicas=6</code></p>`}
  </div>`;
}

const WAITING = 400; // how many squares of pods without a node are drawn

export function Unplaced({ placement, address, more = 0 }) {
  const pods = placement.unplaced;
  if (!pods.length && !more) return null;
  return html`<section class="group" aria-label="pods without a node">
    <div class="tile unplaced ${more ? "loses" : ""}"><header><strong>unscheduled</strong><span class="dim">${count(pods.length, "pod")}</span></header>
    ${more > 0 && html`<p class="reason">${count(more, "pod")} would end here</p>`}
    <${Squares} pods=${pods.slice(0, WAITING)} address=${address} />${pods.length > WAITING && html`<p class="dim">and ${count(pods.length - WAITING, "pod")} more</p>`}</div></section>`;
}

const NEW = 60; // how many nodes that there would be are drawn

// Nodes that there would be, with what would come there; those that get most first.
export function NewNodes({ verdicts, known }) {
  const names = verdicts ? [...verdicts.keys()].filter((name) => !known.has(name)) : [];
  if (!names.length) return null;
  names.sort((a, b) => verdicts.get(b).arrives.length - verdicts.get(a).arrives.length || inOrder(a, b));
  return html`<section class="group new" aria-label="new nodes"><h3>new nodes <span class="dim">${count(names.length, "node")}</span></h3>
    <div class="tiles">${names.slice(0, NEW).map((name) => html`<${Imagined} key=${name} name=${name} verdict=${verdicts.get(name)} />`)}</div>
    ${names.length > NEW && html`<p class="dim">and ${count(names.length - NEW, "node")} more</p>`}</section>`;
}

function Imagined({ name, verdict }) {
  return html`<article class="tile imagined gets" data-node=${name}><header><${Cut} text=${name} /><span class="mark" aria-label="gets pods">●</span></header>
    <p class="reason">${verdict.text}</p><${Arriving} pods=${verdict.arrives} /></article>`;
}

const Arriving = ({ pods }) => html`<div class="squares">${pods.map((pod, at) => html`<i key=${at} class="pod arriving" title=${`${pod} would come here`}></i>`)}</div>`;

function Tile({ node, pods, all, address, verdict, movable }) {
  const [mark, meaning] = VERDICTS[verdict?.verdict] || [];
  const marks = [!node.ready && "not ready", node.cordoned && "cordoned"].filter(Boolean);
  const chosen = address.node === node.name;
  return html`<article class="tile ${verdict?.verdict || ""} ${chosen ? "chosen" : ""} ${node.ready ? "" : "unready"}" data-node=${node.name}
    draggable=${movable} onDragStart=${(event) => event.dataTransfer.setData(NODE_DRAGGED, node.name)}
    onClick=${(event) => event.target.closest("a") || go({ node: chosen ? "" : node.name })}>
    <header>
      <a ...${to({ node: chosen ? "" : node.name })} draggable="false"><${Cut} text=${node.name} /></a>
      ${mark && html`<span class="mark" title=${meaning} aria-label=${meaning}>${mark}</span>`}
    </header>
    ${verdict?.text && html`<p class="reason" title=${verdict.text}>${said(verdict.text)}</p>`}
    ${marks.length > 0 && html`<p class="marks">${marks.join(", ")}</p>`}
    <${Bars} usage=${node.usage} />
    <${Squares} pods=${[...pods].map((key) => all.get(key))} address=${address} leaves=${verdict?.leaves} />
    ${verdict?.arrives?.length > 0 && html`<${Arriving} pods=${verdict.arrives} />`}
    ${node.taints.length > 0 && html`<p class="taints">${node.taints.map((taint) => html`<span key=${taint}>${taint.split(/(?<=[=:])/).map((part, at) => html`${at > 0 && html`<wbr />`}${part}`)}</span>`)}</p>`}
  </article>`;
}

function Bars({ usage }) {
  const rows = [["CPU", "CPU", usage[0], usage[1], cpuOf], ["mem", "memory", usage[2], usage[3], bytesOf], ["pods", "pods", usage[4], usage[5], (used, most) => `${used} of ${most}`]];
  return html`<div class="bars">${rows.map(([short, name, used, most, words]) => {
    const part = most ? Math.min(1, used / most) : 0;
    const title = `${name}: ${words(used, most)} requested`;
    return html`<div class="bar ${part > 0.9 ? "full" : ""}" title=${title} aria-label=${title} role="img"><span aria-hidden="true">${short}</span><b><i style=${{ width: `${part * 100}%` }}></i></b><span aria-hidden="true">${Math.round(part * 100)} %</span></div>`;
  })}</div>`;
}

// Each is in the list of pods too, where the keyboard gets to it sooner than over hundreds of squares.
export function Squares({ pods, address, leaves, isList }) {
  return html`<div class="squares">${pods.sort(byOwner).map((pod, at) => html`<a key=${pod.key} data-pod=${pod.key}
    class="pod ${shapeOf(pod, address.colour)} ${address.pod === pod.key ? "chosen" : ""} ${pod.evictAt ? "doomed" : ""} ${leaves?.has(pod.key) ? "leaving" : ""} ${isFound(pod, address.find) ? "" : "other"}" tabindex=${isList && at === 0 ? "0" : "-1"}
    style=${{ "--colour": colourOf(pod, address.colour) }} ...${to(choosePod(pod.key))} draggable="false" title=${`${pod.key}\n${pod.owner || "no owner"}, ${stateOf(pod)}`}
    aria-label=${`pod ${nameOf(pod.key)}, ${stateOf(pod)}`}></a>`)}</div>`;
}

// A pod that has moved glides from where it was; nothing else moves.
function useGlide(box, placement) {
  const before = useRef({ at: new Map(), revision: -1 });
  useLayoutEffect(() => {
    if (!box.current || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const { at, revision } = before.current;
    if (revision !== placement.revision) {
      for (const key of placement.moved.keys()) {
        const square = box.current.querySelector(`[data-pod="${CSS.escape(key)}"]`);
        const from = at.get(key);
        if (!square || !from) continue;
        const to = square.getBoundingClientRect();
        square.animate([{ transform: `translate(${from.x - to.x}px, ${from.y - to.y}px)` }, { transform: "none" }], { duration: GLIDE, easing: "ease-out" });
      }
    }
    const waiting = new Map();
    for (const square of box.current.querySelectorAll(".unplaced [data-pod]")) {
      const { x, y } = square.getBoundingClientRect();
      waiting.set(square.dataset.pod, { x, y });
    }
    before.current = { at: waiting, revision: placement.revision };
  });
}
