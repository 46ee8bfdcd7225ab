// The page: pods on the left, the map in the middle, why on the right, the timeline below.
import { go, hashOf, useAddress } from "./address.js";
import { CanvasMap, NODES, PODS } from "./canvas.js";
import { BY, legend } from "./colours.js";
import { usual, ways } from "./groups.js";
import { html, render, useEffect, useMemo, useReducer, useState } from "./html.js";
import { follow, Map_ } from "./map.js";
import { Placement } from "./placement.js";
import { Pods } from "./pods.js";
import { ask, open } from "./session.js";
import { Stories } from "./stories.js";
import { NodeTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { useWhy, verdictsOf } from "./verdicts.js";
import { changesOf, differences, useWhatIf, WhatIf } from "./whatif.js";
import { Why } from "./why.js";
import { count } from "./words.js";

const SLOWLY = 2000;
const STATES = {
  connecting: "connecting…",
  live: "live",
  lost: "The server does not answer. What you see is the last that was known; the page goes on by itself.",
};

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
      if (event.key === "Escape") go({ pod: "", node: "", panel: "" });
      if (event.key === "t") go({ view: address.view === "map" ? "table" : "map" });
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });
  const asked = useWhy(placement.pods.has(address.pod) ? address.pod : "", placement.revision);
  const [tried, tryOut] = useState(null);
  const answer = tried || asked;
  const imagined = useWhatIf(address);
  const isImagined = address.panel === "whatif" && !placement.pods.has(address.pod);
  const verdicts = useMemo(() => (isImagined ? differences(imagined) : verdictsOf(answer)), [answer, imagined, isImagined]);
  if (placement.state === "closed") return html`<${Closed} message=${placement.problem} />`;
  const isLarge = placement.nodes.size > NODES || placement.pods.size > PODS;
  const Centre = address.view === "table" ? NodeTable : isLarge ? CanvasMap : Map_;
  return html`
    <${Header} placement=${placement} cluster=${cluster} address=${address} />
    ${placement.state === "lost" && html`<p class="banner" role="status">${STATES.lost}</p>`}
    <${Pods} placement=${placement} address=${address} />
    <main class="scroll" aria-busy=${placement.state === "connecting"}>
      <${Controls} placement=${placement} address=${address} />
      ${changesOf(address).length > 0 && html`<p class="banner tried" role="status">What if: the map shows what ${imagined?.asking ? "is being played" : "would happen"}. Nothing is applied.</p>`}
      ${tried && html`<p class="banner tried" role="status">The map shows the rules that you are trying out. Nothing is applied.</p>`}
      ${placement.state === "connecting" && !placement.nodes.size ? html`<${Skeleton} />` : html`<${Centre} placement=${placement} address=${address} verdicts=${verdicts} />`}
    </main>
    ${address.panel === "whatif" && !address.pod && !address.node
    ? html`<aside class="why scroll" aria-label="What if" tabindex="0"><button class="close" aria-label="Close" onClick=${() => go({ panel: "", whatif: "" })}>×</button><${WhatIf} address=${address} answer=${imagined} gates=${cluster.gates} /></aside>`
    : address.panel === "stories" && !address.pod && !address.node
    ? html`<aside class="why scroll" aria-label="Stories" tabindex="0"><button class="close" aria-label="Close" onClick=${() => go({ panel: "" })}>×</button><${Stories} stories=${cluster.stories} /></aside>`
    : html`<${Why} placement=${placement} address=${address} stories=${cluster.stories} answer=${answer} verdicts=${verdicts} tryOut=${tryOut} />`}
    <${Timeline} placement=${placement} address=${address} />`;
}

function Header({ placement, cluster }) {
  const pending = placement.unplaced.length;
  return html`<header class="top"><h1><img src="mark.svg" alt="" width="18" height="18" /> Moorage</h1>
    <span class="dim" title="the cluster">${cluster.name}</span>
    <a class="switch" href=${hashOf({ panel: "whatif", pod: "", node: "" })} onClick=${(event) => follow(event, { panel: "whatif", pod: "", node: "" })}>What if</a>
    ${cluster.stories.length > 0 && html`<a class="switch" href=${hashOf({ panel: "stories", pod: "", node: "" })} onClick=${(event) => follow(event, { panel: "stories", pod: "", node: "" })}>Stories</a>`}
    <span class="numbers"><b>${count(placement.nodes.size, "node")}</b> <b>${count(placement.pods.size, "pod")}</b>
      <b class=${pending ? "warn" : "dim"}>${pending.toLocaleString("en")} pending</b></span>
    <span class="state ${placement.state}" role="status">${placement.state === "lost" ? "reconnecting" : STATES[placement.state]}</span></header>`;
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
      ${options.map((way) => html`<option key=${way} value=${way}>${way.replace(/^(label|taint):/, (_, kind) => (kind === "taint" ? "taint " : ""))}</option>`)}</select></label>
    <label>colour by <select value=${address.colour} onChange=${(event) => go({ colour: event.target.value })}>${BY.map((by) => html`<option key=${by}>${by}</option>`)}</select></label>
    <span class="legend">${meanings.map((each) => html`<span key=${each.text} title=${count(each.number, "pod")}><i class="pod full" style=${{ "--colour": each.colour }}></i>${each.text}</span>`)}</span>
    <a class="switch" href=${hashOf({ view: address.view === "map" ? "table" : "map" })} onClick=${(event) => follow(event, { view: address.view === "map" ? "table" : "map" })}>${address.view === "map" ? "as a table" : "as a map"}</a>
  </div>`;
}

const Skeleton = () => html`<div class="tiles skeleton" aria-hidden="true">${Array.from({ length: 12 }, (_, at) => html`<div class="tile" key=${at}></div>`)}</div>`;

const Closed = ({ message }) => html`<div class="closed"><h1>Moorage</h1><p role="alert">${message}</p></div>`;

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
