// The map of a large cluster: the same tiles, drawn on a canvas that shows only what is scrolled into view.
import { choosePod, go } from "./address.js";
import { colourOf, hasDot, SHAPES } from "./colours.js";
import { grouped, usual } from "./groups.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef } from "./html.js";
import { NewNodes, NODE_DRAGGED, Unplaced, VERDICTS } from "./map.js";
import { isFound } from "./pods.js";
import { byOwner, bytesOf, count, cpuOf, cut } from "./words.js";

export const NODES = 300; // from so many nodes, or pods on them, on the map is drawn on a canvas
export const PODS = 4000;
const TILE = { width: 112, height: 64, gap: 6, inset: 6, pod: 6, step: 7.5, rows: 4 }; // as wide as this at least
const HEAD = 26;
const PALE = 0.2; // what nobody searches for
const LEAVING = 0.35;
const MARKS = '"Segoe UI Symbol", "Apple Symbols", "DejaVu Sans", "Noto Sans Symbols2", sans-serif';
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
    const top = topOf(address.node || placement.pods.get(address.pod)?.node, groups, box.current.clientWidth);
    const scroller = box.current.closest(".scroll");
    const from = scroller.scrollTop - box.current.offsetTop;
    if (top !== null && (top < from || top + TILE.height > from + scroller.clientHeight - HEAD)) scroller.scrollTop = box.current.offsetTop + top - scroller.clientHeight / 2;
  }, [address.node, address.pod]);
  const pointed = (event) => find(canvas.current, event, drawing.current);
  return html`<${Unplaced} placement=${placement} address=${address} more=${verdicts?.stuck} /><${NewNodes} verdicts=${address.panel === "whatif" && verdicts} known=${placement.nodes} /><div class="canvas-map" ref=${box}><canvas ref=${canvas} role="img" draggable=${address.panel === "whatif"}
    onDragStart=${(event) => { const hit = pointed(event); if (hit) event.dataTransfer.setData(NODE_DRAGGED, hit.node.name); else event.preventDefault(); }}
    aria-label=${`Map of ${count(nodes.length, "node")} and ${count(placement.pods.size, "pod")}; press t for a table`}
    onMouseMove=${(event) => { const hit = pointed(event); canvas.current.title = hit ? words(hit, drawing.current) : ""; canvas.current.style.cursor = hit ? "pointer" : ""; }}
    onClick=${(event) => { const hit = pointed(event); if (hit) go(hit.pod ? choosePod(hit.pod) : { node: hit.node.name }); }}></canvas></div>`;
}

function words({ node, pod }, { placement, verdicts }) {
  if (pod) return `${pod}\n${placement.pods.get(pod)?.owner || "no owner"}`;
  const [used, most, memory, all, pods, room] = node.usage;
  const verdict = verdicts?.get(node.name);
  return [node.name, `${cpuOf(used, most)}, ${bytesOf(memory, all)}, ${pods} of ${room} pods`, ...node.taints, verdict?.text].filter(Boolean).join("\n");
}

// Where every group begins, how many tiles stand side by side and how wide they are, and how high all of it is.
function layout(groups, width) {
  const columns = Math.max(1, Math.floor((width + TILE.gap) / (TILE.width + TILE.gap)));
  const wide = Math.floor((width - (columns - 1) * TILE.gap) / columns);
  let top = 0;
  const places = groups.map((group) => {
    const place = { group, top: top + HEAD };
    top += HEAD + Math.ceil(group.nodes.length / columns) * (TILE.height + TILE.gap) + TILE.gap;
    return place;
  });
  return { columns, places, wide, height: top, across: Math.floor((wide - 2 * TILE.inset + TILE.step - TILE.pod) / TILE.step) };
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
  const fonts = { head: `600 13px ${style.fontFamily}`, count: `13px ${style.fontFamily}`, name: `11px ${style.fontFamily}`, mark: `11px ${MARKS}`, more: `9px ${style.fontFamily}` };
  for (const { group, top } of plan.places) {
    if (top - HEAD > from + high) break;
    heading(pen, group, top - 8, colours, fonts);
    const first = Math.max(0, Math.floor((from - top) / (TILE.height + TILE.gap))) * plan.columns;
    for (let at = first; at < group.nodes.length; at++) {
      const y = top + Math.floor(at / plan.columns) * (TILE.height + TILE.gap);
      if (y > from + high) break;
      const node = placement.nodes.get(group.nodes[at].name);
      if (node) tile(pen, (at % plan.columns) * (plan.wide + TILE.gap), y, node, { placement, address, verdicts, colours, fonts, plan });
    }
  }
}

function heading(pen, group, y, colours, fonts) {
  pen.font = fonts.head;
  pen.fillStyle = colours.text;
  pen.fillText(group.name, 0, y);
  const x = group.name ? pen.measureText(`${group.name} `).width : 0;
  pen.font = fonts.count;
  pen.fillStyle = colours.dim;
  pen.fillText(count(group.nodes.length, "node"), x, y);
}

function tile(pen, x, y, node, { placement, address, verdicts, colours, fonts, plan }) {
  const verdict = verdicts?.get(node.name);
  const tint = verdict && (colours[TINTS[verdict.verdict] || verdict.verdict] || colours.dim);
  const isChosen = address.node === node.name;
  pen.fillStyle = colours.panel;
  pen.strokeStyle = isChosen ? colours.accent : colours.line;
  pen.lineWidth = isChosen ? 2 : 1;
  pen.setLineDash(node.ready ? [] : [3, 2]);
  pen.fillRect(x, y, plan.wide, TILE.height);
  pen.strokeRect(x + 0.5, y + 0.5, plan.wide - 1, TILE.height - 1);
  pen.setLineDash([]);
  pen.lineWidth = 1;
  pen.font = fonts.name;
  pen.fillStyle = colours.text;
  pen.fillText(cut(node.name, Math.floor((plan.wide - 2 * TILE.inset - (verdict ? 14 : 0)) / 6)), x + TILE.inset, y + 13);
  const state = !node.ready ? "not ready" : node.cordoned ? "cordoned" : "";
  if (state && !verdict) {
    pen.font = fonts.more;
    pen.fillStyle = colours.dim;
    pen.fillText(state, x + plan.wide - TILE.inset - pen.measureText(state).width, y + 13);
  }
  if (verdict) {
    pen.fillStyle = tint;
    pen.fillRect(x, y, 3, TILE.height);
    pen.font = fonts.mark;
    pen.fillText(VERDICTS[verdict.verdict][0], x + plan.wide - 16, y + 13);
  }
  const long = plan.wide - 2 * TILE.inset;
  for (let bar = 0; bar < 3; bar++) {
    const part = node.usage[bar * 2 + 1] ? Math.min(1, node.usage[bar * 2] / node.usage[bar * 2 + 1]) : 0;
    pen.fillStyle = colours.track;
    pen.fillRect(x + TILE.inset, y + 18 + bar * 4, long, 3);
    pen.fillStyle = part > 0.9 ? colours.warn : colours.dim;
    pen.fillRect(x + TILE.inset, y + 18 + bar * 4, long * part, 3);
  }
  const pods = podsOn(node.name, placement);
  const all = pods.length + (verdict?.arrives?.length || 0);
  const shown = shownOf(all, plan);
  let at = 0;
  for (const pod of pods.slice(0, shown)) square(pen, ...spot(x, y, at++, plan), pod, address, colours, verdict?.leaves?.has(pod.key));
  pen.strokeStyle = colours.fits;
  pen.setLineDash([2, 1]);
  for (; at < Math.min(shown, all); at++) {
    const [left, upper] = spot(x, y, at, plan);
    pen.strokeRect(left + 0.5, upper + 0.5, TILE.pod - 1, TILE.pod - 1);
  }
  pen.setLineDash([]);
  if (shown < all) {
    const [left, upper] = spot(x, y, shown, plan);
    pen.font = fonts.more;
    pen.fillStyle = colours.dim;
    pen.fillText(`+${all - shown}`, left, upper + TILE.pod);
  }
}

const podsOn = (node, placement) => [...placement.podsOn(node)].map((key) => placement.pods.get(key)).sort(byOwner);

// How many squares there is room for, beside a number of those for which there is none.
const shownOf = (number, { across }) => (number <= across * TILE.rows ? number : across * TILE.rows - 3);

const spot = (x, y, at, { across }) => [x + TILE.inset + (at % across) * TILE.step, y + 32 + Math.floor(at / across) * TILE.step];

function square(pen, x, y, pod, address, colours, leaves) {
  pen.globalAlpha = leaves ? LEAVING : isFound(pod, address.find) ? 1 : PALE;
  pen.fillStyle = pen.strokeStyle = colourOf(pod, address.colour);
  const shape = SHAPES[pod.state] || "full";
  if (shape === "full") {
    pen.fillRect(x, y, TILE.pod, TILE.pod);
    pen.fillStyle = colours.panel;
    if (hasDot(pod, address.colour)) pen.fillRect(x + 2, y + 2, 2, 2);
  } else {
    pen.strokeRect(x + 0.5, y + 0.5, TILE.pod - 1, TILE.pod - 1);
    if (shape === "half") pen.fillRect(x, y, TILE.pod / 2, TILE.pod);
  }
  if (pod.evictAt) {
    pen.strokeStyle = colours.evicted;
    pen.strokeRect(x - 0.5, y - 0.5, TILE.pod + 1, TILE.pod + 1);
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
  const column = Math.floor(x / (plan.wide + TILE.gap));
  if (column >= plan.columns) return null;
  for (const { group, top } of plan.places) {
    const row = Math.floor((y - top) / (TILE.height + TILE.gap));
    const at = row * plan.columns + column;
    if (row < 0 || at >= group.nodes.length || y < top) continue;
    const node = placement.nodes.get(group.nodes[at].name);
    const [left, upper] = [column * (plan.wide + TILE.gap), top + row * (TILE.height + TILE.gap)];
    if (!node || x > left + plan.wide || y > upper + TILE.height) return null;
    const across = Math.floor((x - left - TILE.inset) / TILE.step);
    const down = Math.floor((y - upper - 32) / TILE.step);
    const pods = podsOn(node.name, placement);
    const place = down * plan.across + across;
    const isSquare = across >= 0 && across < plan.across && down >= 0 && place < shownOf(pods.length, plan);
    return { node, pod: isSquare ? pods[place]?.key : null };
  }
  return null;
}
