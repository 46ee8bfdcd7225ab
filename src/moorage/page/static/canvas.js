// The map of a large cluster: the same tiles, drawn on a canvas that shows only what is scrolled into view.
import { choosePod, go } from "./address.js";
import { colourOf, SHAPES } from "./colours.js";
import { grouped, usual } from "./groups.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef } from "./html.js";
import { NODE_DRAGGED, Unplaced, VERDICTS } from "./map.js";
import { isFound } from "./pods.js";
import { bytes, count, cpu, cut } from "./words.js";

export const NODES = 300; // from so many nodes or pods on, the map is drawn on a canvas
export const PODS = 4000;
const TILE = { width: 112, height: 62, gap: 6, pod: 6, across: 14 };
const HEAD = 24;
const PALE = 0.2; // what nobody searches for
const TINTS = { best: "fits", here: "fits", gets: "fits", loses: "refused", changes: "evicted" };

export function CanvasMap({ placement, address, verdicts }) {
  const box = useRef();
  const canvas = useRef();
  const nodes = [...placement.nodes.values()];
  const way = address.group || usual(nodes);
  const groups = useMemo(() => grouped(nodes, way), [placement.places, way]);
  const drawing = useRef({});
  drawing.current = { placement, address, verdicts, groups };
  const draw = () => canvas.current && paint(canvas.current, box.current, drawing.current);
  useLayoutEffect(draw);
  useEffect(() => {
    const scroller = box.current.closest(".scroll");
    let asked = false;
    const later = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; draw(); });
    };
    const watching = new ResizeObserver(later);
    watching.observe(scroller);
    scroller.addEventListener("scroll", later, { passive: true });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", later);
    return () => { watching.disconnect(); scroller.removeEventListener("scroll", later); dark.removeEventListener("change", later); };
  }, []);
  useEffect(() => {
    const top = topOf(address.node, groups, box.current.clientWidth);
    const scroller = box.current.closest(".scroll");
    const from = scroller.scrollTop - box.current.offsetTop;
    if (top !== null && (top < from || top + TILE.height > from + scroller.clientHeight - HEAD)) scroller.scrollTop = box.current.offsetTop + top - scroller.clientHeight / 2;
  }, [address.node]);
  const pointed = (event) => find(canvas.current, event, drawing.current);
  return html`<${Unplaced} placement=${placement} address=${address} more=${verdicts?.stuck} /><div class="canvas-map" ref=${box}><canvas ref=${canvas} role="img" draggable=${address.panel === "whatif"}
    onDragStart=${(event) => { const hit = pointed(event); if (hit) event.dataTransfer.setData(NODE_DRAGGED, hit.node.name); else event.preventDefault(); }}
    aria-label=${`Map of ${count(nodes.length, "node")} and ${count(placement.pods.size, "pod")}; press t for a table`}
    onMouseMove=${(event) => { const hit = pointed(event); canvas.current.title = hit ? words(hit, drawing.current) : ""; canvas.current.style.cursor = hit ? "pointer" : ""; }}
    onClick=${(event) => { const hit = pointed(event); if (hit) go(hit.pod ? choosePod(hit.pod) : { node: hit.node.name }); }}></canvas></div>`;
}

function words({ node, pod }, { placement, verdicts }) {
  if (pod) return `${pod}\n${placement.pods.get(pod)?.owner || "no owner"}`;
  const [used, most, memory, all, pods, room] = node.usage;
  const verdict = verdicts?.get(node.name);
  return [node.name, `${cpu(used)} of ${cpu(most)}, ${bytes(memory)} of ${bytes(all)}, ${pods} of ${room} pods`, ...node.taints, verdict?.text].filter(Boolean).join("\n");
}

// Where every group begins, and how high all of it is.
function layout(groups, width) {
  const columns = Math.max(1, Math.floor((width + TILE.gap) / (TILE.width + TILE.gap)));
  let top = 0;
  const places = groups.map((group) => {
    const place = { group, top: top + HEAD };
    top += HEAD + Math.ceil(group.nodes.length / columns) * (TILE.height + TILE.gap) + TILE.gap;
    return place;
  });
  return { columns, places, height: top };
}

// How far down a node is; null when it is not there.
function topOf(name, groups, width) {
  const { columns, places } = layout(groups, width);
  for (const { group, top } of places) {
    const at = group.nodes.findIndex((node) => node.name === name);
    if (at >= 0) return top + Math.floor(at / columns) * (TILE.height + TILE.gap);
  }
  return null;
}

function paint(canvas, box, { placement, address, verdicts, groups }) {
  const scroller = box.closest(".scroll");
  const width = box.clientWidth;
  const plan = layout(groups, width);
  box.style.height = `${plan.height}px`;
  const offset = box.offsetTop;
  const high = Math.min(scroller.clientHeight, plan.height);
  const from = Math.max(0, Math.min(scroller.scrollTop - offset, plan.height - high));
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(high * ratio)) {
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(high * ratio) });
    Object.assign(canvas.style, { width: `${width}px`, height: `${high}px` });
  }
  canvas.style.transform = `translateY(${from}px)`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, -from * ratio);
  pen.clearRect(0, from, width, high);
  const style = getComputedStyle(document.body);
  const colours = Object.fromEntries(["panel", "line", "text", "dim", "track", "accent", "warn", "fits", "refused", "evicted"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  for (const { group, top } of plan.places) {
    if (top - HEAD > from + high) break;
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillStyle = colours.text;
    pen.fillText([group.name, count(group.nodes.length, "node")].filter(Boolean).join(" · "), 0, top - 8);
    const first = Math.max(0, Math.floor((from - top) / (TILE.height + TILE.gap))) * plan.columns;
    for (let at = first; at < group.nodes.length; at++) {
      const y = top + Math.floor(at / plan.columns) * (TILE.height + TILE.gap);
      if (y > from + high) break;
      const node = placement.nodes.get(group.nodes[at].name);
      if (node) tile(pen, (at % plan.columns) * (TILE.width + TILE.gap), y, node, { placement, address, verdicts, colours });
    }
  }
}

function tile(pen, x, y, node, { placement, address, verdicts, colours }) {
  const verdict = verdicts?.get(node.name)?.verdict;
  pen.fillStyle = colours.panel;
  pen.strokeStyle = address.node === node.name ? colours.accent : colours[TINTS[verdict] || verdict] || colours.line;
  pen.lineWidth = address.node === node.name ? 2 : 1;
  pen.setLineDash(node.ready ? [] : [3, 2]);
  pen.fillRect(x, y, TILE.width, TILE.height);
  pen.strokeRect(x + 0.5, y + 0.5, TILE.width - 1, TILE.height - 1);
  pen.setLineDash([]);
  pen.font = "10px system-ui, sans-serif";
  pen.fillStyle = colours.text;
  pen.fillText(cut(node.name, verdict ? 15 : 17), x + 4, y + 12);
  if (verdict) {
    pen.fillStyle = colours[TINTS[verdict] || verdict];
    pen.fillText(VERDICTS[verdict][0], x + TILE.width - 13, y + 12);
  }
  for (let bar = 0; bar < 3; bar++) {
    const part = node.usage[bar * 2 + 1] ? Math.min(1, node.usage[bar * 2] / node.usage[bar * 2 + 1]) : 0;
    pen.fillStyle = colours.track;
    pen.fillRect(x + 4, y + 17 + bar * 4, TILE.width - 8, 3);
    pen.fillStyle = part > 0.9 ? colours.warn : colours.dim;
    pen.fillRect(x + 4, y + 17 + bar * 4, (TILE.width - 8) * part, 3);
  }
  let at = 0;
  for (const key of placement.podsOn(node.name)) {
    if (at >= TILE.across * 4) break;
    square(pen, ...spot(x, y, at++), placement.pods.get(key), address, colours);
  }
}

const spot = (x, y, at) => [x + 4 + (at % TILE.across) * 7.5, y + 31 + Math.floor(at / TILE.across) * 7.5];

function square(pen, x, y, pod, address, colours) {
  pen.globalAlpha = isFound(pod, address.find) ? 1 : PALE;
  pen.fillStyle = pen.strokeStyle = colourOf(pod, address.colour);
  const shape = SHAPES[pod.state] || "full";
  if (shape === "full") pen.fillRect(x, y, TILE.pod, TILE.pod);
  else {
    pen.strokeRect(x + 0.5, y + 0.5, TILE.pod - 1, TILE.pod - 1);
    if (shape === "half") pen.fillRect(x, y, TILE.pod / 2, TILE.pod);
  }
  if (address.pod === pod.key) {
    pen.strokeStyle = colours.text;
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, y - 1, TILE.pod + 2, TILE.pod + 2);
    pen.lineWidth = 1;
  }
  pen.globalAlpha = 1;
}

// What is under the pointer: a pod, or a node.
function find(canvas, event, { placement, groups }) {
  const box = canvas.parentElement;
  const rect = box.getBoundingClientRect();
  const [x, y] = [event.clientX - rect.x, event.clientY - rect.y];
  const plan = layout(groups, box.clientWidth);
  const column = Math.floor(x / (TILE.width + TILE.gap));
  if (column >= plan.columns) return null;
  for (const { group, top } of plan.places) {
    const row = Math.floor((y - top) / (TILE.height + TILE.gap));
    const at = row * plan.columns + column;
    if (row < 0 || at >= group.nodes.length || y < top) continue;
    const node = placement.nodes.get(group.nodes[at].name);
    const left = column * (TILE.width + TILE.gap);
    const upper = top + row * (TILE.height + TILE.gap);
    if (!node || x > left + TILE.width || y > upper + TILE.height) return null;
    const across = Math.floor((x - left - 4) / 7.5);
    const down = Math.floor((y - upper - 31) / 7.5);
    const pod = across >= 0 && across < TILE.across && down >= 0 ? [...placement.podsOn(node.name)][down * TILE.across + across] : null;
    return { node, pod };
  }
  return null;
}
