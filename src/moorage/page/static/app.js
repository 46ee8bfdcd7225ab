// The page: pods on the left, the map in the middle, why on the right, the timeline below.
import { chooseTemplate, closed, follow, go, hashOf, read, subjectOf, useAddress } from "./address.js";
import { CanvasMap, NODES, PODS } from "./canvas.js";
import { BY, legend } from "./colours.js";
import { useDecided } from "./decided.js";
import { usual, ways } from "./groups.js";
import { html, render, useEffect, useMemo, useReducer, useState } from "./html.js";
import { Map_ } from "./map.js";
import { Placement } from "./placement.js";
import { Pods } from "./pods.js";
import { ask, open, reopen } from "./session.js";
import { Stories } from "./stories.js";
import { NodeTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { useWhy, verdictsOf } from "./verdicts.js";
import { changesOf, differences, useWhatIf, WhatIf } from "./whatif.js";
import { Why } from "./why.js";
import { count, cut } from "./words.js";

const SLOWLY = 2000;
const LAST = "What you see is the last that was known; the page goes on by itself.";
const STATES = { connecting: "connecting…", live: "live", lost: "reconnecting", forbidden: "no rights", stale: "stale" };

function App({ placement, cluster }) {
  const address = useAddress();
  const [, redraw] = useReducer((number) => number + 1, 0);
  useEffect(() => {
    let asked = false;
    const changed = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; redraw(); });
    };
    placement.addEventListener("change", changed);
    const timer = setInterval(changed, SLOWLY); // ages, and what is not counted at every change
    return () => { placement.removeEventListener("change", changed); clearInterval(timer); };
  }, []);
  useEffect(() => {
    const keys = (event) => {
      if (event.target.matches("input, textarea, select")) return;
      if (event.key === "/") { event.preventDefault(); document.querySelector("input[type=search]").focus(); }
      if (event.key === "Escape") go(closed);
      if (event.key === "t") go({ view: read().view === "map" ? "table" : "map" }); // what is true now, not when it was drawn
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const subject = address.pod && !placement.pods.has(address.pod) ? null : subjectOf(address);
  const asked = useWhy(subject, placement.revision);
  const [tried, tryOut] = useState(null);
  const answer = tried || asked;
  const decided = useDecided(subject, placement.nodes.has(address.node) ? address.node : "", tried?.rules || "", asked);
  const imagined = useWhatIf(address);
  const isImagined = address.panel === "whatif" && !subject;
  const verdicts = useMemo(() => (isImagined ? differences(imagined) : verdictsOf(answer)), [answer, imagined, isImagined]);
  if (placement.state === "closed") return html`<${Closed} message=${placement.problem} />`;
  const isLarge = placement.nodes.size > NODES || placement.pods.size > PODS;
  const Centre = address.view === "table" ? NodeTable : isLarge ? CanvasMap : Map_;
  const panel = subject || address.pod || address.node ? "" : address.panel;
  return html`
    <${Header} placement=${placement} cluster=${cluster} address=${address} />
    <${Banner} placement=${placement} />
    <${Pods} placement=${placement} address=${address} />
    <main class="scroll" aria-busy=${placement.state === "connecting"}>
      <${Controls} placement=${placement} address=${address} />
      ${isImagined && changesOf(address).length > 0 && html`<p class="banner tried" role="status">What if: the map shows what ${imagined?.asking ? "is being played" : "would happen"}. Nothing is applied.</p>`}
      ${tried && html`<p class="banner tried" role="status">The map shows the rules that you are trying out. Nothing is applied.</p>`}
      ${!placement.epoch ? html`<${Skeleton} />` : html`<${Centre} placement=${placement} address=${address} verdicts=${verdicts} />`}
    </main>
    ${panel === "whatif"
    ? html`<${Panel} name="What if"><${WhatIf} address=${address} answer=${imagined} gates=${cluster.gates} /></${Panel}>`
    : panel === "stories"
    ? html`<${Panel} name="Stories"><${Stories} stories=${cluster.stories} /></${Panel}>`
    : html`<${Why} placement=${placement} address=${address} cluster=${cluster} answer=${answer} verdicts=${verdicts} decided=${decided} tryOut=${tryOut} />`}
    <${Timeline} placement=${placement} address=${address} />`;
}

const Panel = ({ name, children }) => html`<aside class="why scroll" aria-label=${name} tabindex="0"><button class="close" aria-label="Close" onClick=${() => go(closed)}>×</button>${children}</aside>`;

// Why what is shown may not be what is: each state has its sentence.
function Banner({ placement }) {
  const { state, problem, nodes } = placement;
  if (state === "lost") return html`<p class="banner" role="status">The server of this page does not answer. ${LAST}</p>`;
  if (state === "stale") return html`<p class="banner" role="status">The API server does not answer: ${problem}. ${LAST}</p>`;
  if (state === "forbidden") return html`<p class="banner" role="alert">You may not see this cluster: ${problem}. ${nodes.size ? LAST : "The page shows it as soon as you may."}</p>`;
  return null;
}

function Header({ placement, cluster }) {
  const pending = placement.unplaced.length;
  return html`<header class="top"><h1><img src="mark.svg" alt="" width="18" height="18" /> Moorage</h1>
    <span class="dim cluster" title="the cluster">${cluster.name}${cluster.readOnly ? " · only reads" : ""}</span>
    <a class="switch" href=${hashOf({ ...closed, panel: "whatif" })} onClick=${(event) => follow(event, { ...closed, panel: "whatif" })}>What if</a>
    ${cluster.stories.length > 0 && html`<a class="switch" href=${hashOf({ ...closed, panel: "stories" })} onClick=${(event) => follow(event, { ...closed, panel: "stories" })}>Stories</a>`}
    <span class="numbers">${placement.epoch && html`<b>${count(placement.nodes.size, "node")}</b> <b>${count(placement.pods.size, "pod")}</b>
      <b class=${pending ? "warn" : "dim"}>${pending.toLocaleString("en")} pending</b>`}</span>
    <span class="state ${placement.state}" role="status">${STATES[placement.state]}</span></header>`;
}

function Controls({ placement, address }) {
  const nodes = [...placement.nodes.values()];
  const group = address.group || usual(nodes);
  const options = useMemo(() => [...new Set(["none", ...ways(nodes), group])], [placement.places, group]);
  // Counting a hundred thousand pods at every change would cost more than it tells.
  const moment = placement.pods.size > PODS ? Math.floor(Date.now() / SLOWLY) : placement.revision;
  const meanings = useMemo(() => legend(placement.pods.values(), address.colour), [moment, address.colour, placement.places]);
  return html`<div class="controls">
    <label>group by <select value=${group} onChange=${(event) => go({ group: event.target.value })}>
      ${options.map((way) => html`<option key=${way} value=${way}>${cut(way.replace(/^(label|taint):/, (_, kind) => (kind === "taint" ? "taint " : "")), 34)}</option>`)}</select></label>
    <label>colour by <select value=${address.colour} onChange=${(event) => go({ colour: event.target.value })}>${BY.map((by) => html`<option key=${by}>${by}</option>`)}</select></label>
    <span class="legend">${meanings.map((each) => html`<span key=${each.text} title=${count(each.number, "pod")}><i class="pod full" style=${{ "--colour": each.colour }}></i>${each.template
    ? html`<a href=${hashOf(chooseTemplate(each.template))} onClick=${(event) => follow(event, chooseTemplate(each.template))}>${each.text}</a>` : each.text}</span>`)}</span>
    <a class="switch" href=${hashOf({ view: address.view === "map" ? "table" : "map" })} onClick=${(event) => follow(event, { view: address.view === "map" ? "table" : "map" })}>${address.view === "map" ? "as a table" : "as a map"}</a>
  </div>`;
}

// No spinner: tiles that are still empty.
const Skeleton = () => html`<div class="tiles skeleton" aria-hidden="true">${Array.from({ length: 12 }, (_, at) => html`<div class="tile" key=${at}></div>`)}</div>`;

// An address that somebody shared says what to show, but has no token.
const Closed = ({ message }) => html`<form class="closed" onSubmit=${(event) => { event.preventDefault(); reopen(event.target.elements.address.value); }}>
  <h1>Moorage</h1><p role="alert">${message}</p>
  <label>address or token <input name="address" required autocomplete="off" spellcheck="false" /></label> <button>Open</button></form>`;

async function start() {
  const placement = new Placement();
  try {
    await open();
    const cluster = await (await ask("cluster")).json();
    document.title = `Moorage · ${cluster.name}`;
    render(html`<${App} placement=${placement} cluster=${cluster} />`, document.body);
  } catch (error) {
    render(html`<${Closed} message=${error.message} />`, document.body);
    return;
  }
  placement.follow();
}

start();
