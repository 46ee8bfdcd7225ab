// The page: pods on the left, the map in the middle, why on the right, the timeline below.
import { chooseTemplate, closed, go, subjectOf, to, useAddress } from "./address.js";
import { CanvasMap, NODES, PODS } from "./canvas.js";
import { BY, legend, meet } from "./colours.js";
import { useDecided } from "./decided.js";
import { useFocus, useKeys } from "./keys.js";
import { called, usual, ways } from "./groups.js";
import { html, render, useEffect, useMemo, useReducer, useState } from "./html.js";
import { Map_ } from "./map.js";
import { Placement } from "./placement.js";
import { Pods } from "./pods.js";
import { said } from "./said.js";
import { ask, open, reopen } from "./session.js";
import { Stories } from "./stories.js";
import { NodeTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { useWhy, verdictsOf } from "./verdicts.js";
import { changesOf, differences, useWhatIf, WhatIf } from "./whatif.js";
import { Why } from "./why.js";
import { count } from "./words.js";

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
  useMemo(() => meet(placement.pods.values()), [placement.epoch]);
  useKeys();
  useFocus(address);
  useEffect(() => document.querySelector("main")?.scrollTo(0, 0), [address.view, address.group]);
  const subject = address.pod && !placement.pods.has(address.pod) ? null : subjectOf(address);
  const asked = useWhy(subject, placement.revision);
  const [tried, tryOut] = useState(null);
  const answer = tried || asked;
  const decided = useDecided(subject, placement.nodes.has(address.node) ? address.node : "", tried?.rules || "", asked);
  const imagined = useWhatIf(address);
  const isImagined = address.panel === "whatif" && !subject;
  const verdicts = useMemo(() => (isImagined ? differences(imagined, changesOf(address), placement.nodes) : verdictsOf(answer)), [answer, imagined, isImagined, placement.places]);
  if (placement.state === "closed") return html`<${Closed} message=${placement.problem} />`;
  const isLarge = placement.nodes.size > NODES || placement.pods.size - placement.podsOn("").size > PODS;
  const Centre = address.view === "table" ? NodeTable : isLarge ? CanvasMap : Map_;
  // A cluster on which nothing runs yet shows first what it can be filled with.
  const isFresh = cluster.stories.length > 0 && placement.epoch && !placement.pods.size;
  const panel = subject || address.pod || address.node ? "" : address.panel || (isFresh ? "stories" : "");
  return html`
    <${Header} placement=${placement} cluster=${cluster} panel=${panel} />
    <${Banner} placement=${placement}>
      ${isImagined && html`<p class="banner tried" role="status"><b>Nothing is applied.</b> ${whatIsShown(changesOf(address), imagined)}</p>`}
      ${tried && html`<p class="banner tried" role="status"><b>Nothing is applied.</b> <span class="wide">The map shows where the pod could run with the rules that you try out.</span></p>`}
    </${Banner}>
    <${Pods} placement=${placement} address=${address} />
    <main class="scroll" aria-busy=${placement.state === "connecting"}>
      <${Controls} placement=${placement} address=${address} />
      ${!placement.epoch ? html`<${Skeleton} />` : html`<${Centre} placement=${placement} address=${address} verdicts=${verdicts} />`}
    </main>
    ${panel === "whatif"
    ? html`<${Panel} name="What if"><${WhatIf} address=${address} answer=${imagined} gates=${cluster.gates} placement=${placement} /></${Panel}>`
    : panel === "stories"
    ? html`<${Panel} name="Stories" stays=${!address.panel}><${Stories} stories=${cluster.stories} chosen=${address.story} before=${cluster.onStage} isFresh=${isFresh} /></${Panel}>`
    : html`<${Why} placement=${placement} address=${address} cluster=${cluster} answer=${answer} verdicts=${verdicts} decided=${decided} tryOut=${tryOut} />`}
    <${Timeline} placement=${placement} address=${address} />`;
}

const Panel = ({ name, stays, children }) => html`<aside class="why scroll" aria-label=${name} tabindex="0">${!stays && html`<button class="close" aria-label="Close" onClick=${() => go(closed)}>×</button>`}${children}</aside>`;

function whatIsShown(changes, imagined) {
  if (!changes.length) return "What would be different? Say it here, or on a node or pod that you select.";
  if (imagined?.asking) return "Your changes are being played on a copy of the cluster.";
  return html`<span class="wide">The map shows what ${imagined?.problem ? "is" : "would happen"}.</span>`;
}

// Why what is shown may not be what is: each state has its sentence.
function Banner({ placement, children }) {
  const { state, problem, nodes } = placement;
  return html`<div class="banners">
    ${state === "lost" && html`<p class="banner" role="status">The server of this page does not answer. ${LAST}</p>`}
    ${state === "stale" && html`<p class="banner" role="status">The API server does not answer: ${problem}. ${LAST}</p>`}
    ${state === "forbidden" && html`<p class="banner" role="alert">You may not see this cluster: ${problem}. ${nodes.size ? LAST : "The page shows it as soon as you may."}</p>`}
    ${children}</div>`;
}

// A panel that is opened and closed in the same place.
function Switch({ name, panel, children }) {
  const change = { ...closed, story: "", panel: panel === name ? "" : name };
  return html`<a aria-current=${panel === name} ...${to(change)}>${children}</a>`;
}

function Header({ placement, cluster, panel }) {
  const pending = placement.unplaced.length;
  return html`<header class="top"><h1><img src="mark.svg" alt="" width="18" height="18" /> Moorage</h1>
    <span class="dim cluster" title="the cluster">${cluster.name}${cluster.readOnly ? " · only reads" : ""}</span>
    <nav aria-label="panels"><${Switch} name="whatif" panel=${panel}>What if</${Switch}>
      ${cluster.stories.length > 0 && html`<${Switch} name="stories" panel=${panel}>Stories</${Switch}>`}</nav>
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
  const { meanings, others } = useMemo(() => legend(placement.pods.values(), address.colour), [moment, address.colour, placement.places]);
  return html`<div class="controls">
    <label>group by <select value=${group} title=${group.replace(/^(label|taint):/, "$1 ")} onChange=${(event) => go({ group: event.target.value })}>
      ${options.map((way) => html`<option key=${way} value=${way}>${way.startsWith("taint:") ? "taint " : ""}${called(way, options)}</option>`)}</select></label>
    <label>colour by <select value=${address.colour} onChange=${(event) => go({ colour: event.target.value })}>${BY.map((by) => html`<option key=${by}>${by}</option>`)}</select></label>
    <${ViewSwitch} view=${address.view} /></div>
    <div class="legend">${meanings.map((each) => html`<span key=${each.text} title=${`${each.text}: ${count(each.number, "pod")}`}><i class="pod full ${each.isDotted ? "dotted" : ""}" style=${{ "--colour": each.colour }}></i>${each.template
    ? html`<a ...${to(chooseTemplate(each.template))}>${each.name}</a>` : each.name}</span>`)}${others > 0 && html`<span>and ${others.toLocaleString("en")} more</span>`}</div>`;
}

const ViewSwitch = ({ view }) => html`<span class="switch">${["map", "table"].map((each) => html`<a key=${each} aria-current=${view === each} ...${to({ view: each })}>${each}</a>`)}</span>`;

// No spinner: tiles that are still empty.
const Skeleton = () => html`<div class="tiles skeleton" aria-hidden="true">${Array.from({ length: 12 }, (_, at) => html`<div class="tile" key=${at}></div>`)}</div>`;

// An address that somebody shared says what to show, but has no token.
const Closed = ({ message }) => html`<form class="closed" onSubmit=${(event) => { event.preventDefault(); reopen(event.target.elements.address.value); }}>
  <h1><img src="mark.svg" alt="" width="20" height="20" /> Moorage</h1><p role="alert">${said(message.charAt(0).toUpperCase() + message.slice(1))}</p>
  <div><input name="address" aria-label="address or token" placeholder="address or token" required autocomplete="off" spellcheck="false" /> <button class="main">Open</button></div></form>`;

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
