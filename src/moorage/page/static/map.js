// The map: nodes as tiles, pods as squares on them.
import { go, hashOf } from "./address.js";
import { colourOf, SHAPES } from "./colours.js";
import { grouped, usual } from "./groups.js";
import { html, useLayoutEffect, useRef } from "./html.js";
import { bytes, count, cpu, cut, nameOf } from "./words.js";

const GLIDE = 200;

const VERDICTS = {
  fits: ["●", "may run here"],
  best: ["★", "best score"],
  refused: ["✕", "may not run here"],
  evicted: ["◷", "would be evicted"],
  here: ["◆", "runs here"],
};

export function Map_({ placement, address, verdicts }) {
  const box = useRef();
  const nodes = [...placement.nodes.values()];
  const groups = grouped(nodes, address.group || usual(nodes));
  useGlide(box, placement);
  if (!nodes.length) {
    return html`<div class="empty"><p>There are no nodes yet.</p><p class="hint">Hollow ones come with <code>moorage up --nodes 3</code>; a kubelet registers its own.</p></div>`;
  }
  return html`<div class="map" ref=${box}>
    <${Unplaced} placement=${placement} address=${address} />
    ${groups.map((group) => html`<section class="group" key=${group.name} aria-label=${group.name || "nodes"}>
      ${group.name && html`<h3>${group.name} <span class="dim">${count(group.nodes.length, "node")}</span></h3>`}
      <div class="tiles">${group.nodes.map((node) => html`<${Tile} key=${node.name} node=${node} pods=${placement.podsOn(node.name)}
        all=${placement.pods} address=${address} verdict=${verdicts?.get(node.name)} />`)}</div>
    </section>`)}
  </div>`;
}

function Unplaced({ placement, address }) {
  const pods = placement.unplaced;
  if (!pods.length) return null;
  return html`<section class="group" aria-label="pods without a node">
    <div class="tile unplaced"><header><strong>unscheduled</strong><span class="dim">${count(pods.length, "pod")}</span></header>
    <${Squares} pods=${pods} address=${address} /></div></section>`;
}

function Tile({ node, pods, all, address, verdict }) {
  const [mark, meaning] = VERDICTS[verdict?.verdict] || [];
  const marks = [!node.ready && "not ready", node.cordoned && "cordoned"].filter(Boolean);
  const chosen = address.node === node.name;
  return html`<article class="tile ${verdict?.verdict || ""} ${chosen ? "chosen" : ""} ${node.ready ? "" : "unready"}" data-node=${node.name}>
    <header>
      <a href=${hashOf({ node: chosen ? "" : node.name })} onClick=${(event) => follow(event, { node: chosen ? "" : node.name })} title=${node.name}>${cut(node.name, 22)}</a>
      ${mark && html`<span class="mark" title=${meaning} aria-label=${meaning}>${mark}</span>`}
    </header>
    ${verdict?.text && html`<p class="reason" title=${verdict.text}>${verdict.text}</p>`}
    ${marks.length > 0 && html`<p class="marks">${marks.join(", ")}</p>`}
    <${Bars} usage=${node.usage} />
    <${Squares} pods=${[...pods].map((key) => all.get(key))} address=${address} />
    ${node.taints.length > 0 && html`<p class="taints" title=${node.taints.join("\n")}>${node.taints.map((taint) => html`<span>${cut(taint, 30)}</span>`)}</p>`}
  </article>`;
}

function Bars({ usage }) {
  const rows = [["CPU", usage[0], usage[1], cpu], ["memory", usage[2], usage[3], bytes], ["pods", usage[4], usage[5], String]];
  return html`<div class="bars">${rows.map(([name, used, most, words]) => {
    const part = most ? Math.min(1, used / most) : 0;
    const title = `${name}: ${words(used)} requested of ${words(most)}`;
    return html`<div class="bar ${part > 0.9 ? "full" : ""}" title=${title} aria-label=${title} role="img"><i style=${{ width: `${part * 100}%` }}></i></div>`;
  })}</div>`;
}

export function Squares({ pods, address }) {
  const order = pods.sort((a, b) => (a.owner < b.owner ? -1 : a.owner > b.owner ? 1 : a.key < b.key ? -1 : 1));
  return html`<div class="squares">${order.map((pod) => html`<a key=${pod.key} data-pod=${pod.key}
    class="pod ${SHAPES[pod.state] || "full"} ${address.pod === pod.key ? "chosen" : ""} ${pod.evictAt ? "doomed" : ""}"
    style=${{ "--colour": colourOf(pod, address.colour) }} href=${hashOf({ pod: pod.key })} title=${`${pod.key}\n${pod.owner || "no owner"}, ${pod.state}`}
    aria-label=${`pod ${nameOf(pod.key)}, ${pod.state}`} onClick=${(event) => follow(event, { pod: pod.key })}></a>`)}</div>`;
}

export function follow(event, change) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  go(change);
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
