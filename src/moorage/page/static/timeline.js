// The timeline: what happened in the last hour, and how many pods waited.
import { choosePod, follow, go, hashOf } from "./address.js";
import { Cut } from "./cut.js";
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import uPlot from "./vendor/uplot.js";
import { clock, cut, nameOf, span } from "./words.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const KINDS = ["placed", "evicted", "preempted", "deleted", "waiting", "failed", "taint", "label", "node"];
const SHOWN = 100;
const CAUSES = 20;
const PLOT = 112; // pixels
const FOLLOWED = 60;
const SHORTEST = 300; // seconds that the plot shows at least
const LONGEST = 3600;

export function Timeline({ placement, address }) {
  const kind = address.kind;
  const counts = placement.counts;
  const shown = newest(placement.happened, kind, address.cause);
  return html`<section class="timeline" aria-label="What happened">
    <${Plot} placement=${placement} />
    <div class="happened">
      <div class="kinds"><h2>Last hour</h2>${KINDS.filter((each) => counts[each]).map((each) => html`<button key=${each} class="kind ${each}" aria-pressed=${kind === each}
        onClick=${() => go({ kind: kind === each ? "" : each, cause: "" })}>${each} <b>${counts[each].toLocaleString("en")}</b></button>`)}
        <${Causes} placement=${placement} address=${address} /></div>
      <ol class="scroll" tabindex="0" aria-label="What happened, the newest first">${shown.map((each) => html`<${Row} key=${each.number} of=${each} all=${placement.happened} chosen=${String(each.number) === address.happening} here=${location.hash} />`)}
    ${!shown.length && placement.epoch && html`<li class="hint">Nothing has happened in the last hour, as far as is known.</li>`}</ol></div>
  </section>`;
}

function Row({ of, all, chosen, here }) {
  const line = useMemo(() => html`<a href=${hashOf(target(of))} onClick=${(event) => follow(event, target(of))}>
    <time>${clock(of.at)}</time> <b class="kind ${of.kind}">${of.kind}</b>
    <span class="name"><${Cut} text=${nameOf(of.subject)} /></span> <span class="what">${of.text}</span>
    <span class="dim cause" title=${of.cause}>${of.cause}</span></a>`, [of, here]);
  return html`<li class=${chosen ? "chosen" : ""}>${line}${chosen && html`<${Consequences} of=${of} all=${all} />`}</li>`;
}

function newest(happened, kind, cause) {
  const shown = [];
  for (let at = happened.length - 1; at >= 0 && shown.length < SHOWN; at--) {
    if ((!kind || happened[at].kind === kind) && (!cause || happened[at].cause === cause)) shown.push(happened[at]);
  }
  return shown;
}

// The causes of what is shown, the most frequent first.
function Causes({ placement, address }) {
  const causes = useMemo(() => {
    const numbers = new Map();
    for (const { kind, cause } of placement.happened) if (cause && (!address.kind || kind === address.kind)) numbers.set(cause, (numbers.get(cause) || 0) + 1);
    return [...numbers].sort((a, b) => b[1] - a[1]).slice(0, CAUSES);
  }, [placement.happened.at(-1)?.number, address.kind]);
  if (!causes.length) return null;
  return html`<select class="causes" aria-label="Cause" value=${address.cause} onChange=${(event) => go({ cause: event.target.value })}>
    <option value="">for any cause</option>${causes.map(([cause, number]) => html`<option key=${cause} value=${cause}>${number.toLocaleString("en")} × ${cut(cause, 90)}</option>`)}</select>`;
}

const target = (happening) => ({
  happening: String(happening.number),
  ...(happening.subject.includes("/") ? choosePod(happening.subject) : { node: happening.subject }),
});

function Consequences({ of, all }) {
  const later = all.filter((each) => each.number > of.number && each.at - of.at < FOLLOWED && isRelated(of, each)).slice(0, 6);
  return html`<div class="after">${of.cause && html`<p>${of.cause}</p>`}
    ${later.length ? html`<p class="dim">What followed:</p><ul>${later.map((each) => html`<li key=${each.number}>${span(each.at - of.at)} later: ${each.kind} ${nameOf(each.subject)} ${each.text}</li>`)}</ul>` : html`<p class="dim">Nothing followed within a minute.</p>`}</div>`;
}

const isRelated = (first, later) =>
  later.subject === first.subject || (first.owner && later.owner === first.owner) || (!first.subject.includes("/") && later.node === first.subject);

function Plot({ placement }) {
  const box = useRef();
  const plot = useRef();
  const [isDark, turn] = useState(dark.matches);
  useEffect(() => {
    const turned = () => turn(dark.matches);
    dark.addEventListener("change", turned);
    return () => dark.removeEventListener("change", turned);
  }, []);
  useEffect(() => {
    const style = getComputedStyle(document.body);
    const line = style.getPropertyValue("--accent");
    const grey = style.getPropertyValue("--dim");
    plot.current = new uPlot({
      width: box.current.clientWidth, height: PLOT, legend: { show: false }, cursor: { show: false },
      scales: { x: { range: (_, first, last) => [Math.max(last - LONGEST, Math.min(first, last - SHORTEST)), last] }, y: { range: (_, __, most) => [0, Math.max(most, 4)] } },
      axes: [{ stroke: grey, size: 22, grid: { show: false }, ticks: { show: false }, font: "10px system-ui", values: (_, at) => at.map((each) => clock(each).slice(0, 5)) },
        { stroke: grey, size: 30, grid: { stroke: grey, width: 0.2 }, ticks: { show: false }, font: "10px system-ui", splits: (self) => [0, Math.ceil(self.scales.y.max / 2), self.scales.y.max], values: (_, at) => at }],
      series: [{}, { stroke: line, width: 1.5, fill: `color-mix(in srgb, ${line} 15%, transparent)`, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
    }, data(placement), box.current);
    const watching = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height: PLOT }));
    watching.observe(box.current);
    return () => { watching.disconnect(); plot.current.destroy(); };
  }, [isDark]);
  useEffect(() => plot.current?.setData(data(placement)), [placement.revision]);
  const now = placement.unplaced.length;
  return html`<figure><figcaption>Pending pods <b>${now.toLocaleString("en")}</b></figcaption><div ref=${box} role="img" aria-label=${`${now} pods are pending`}></div></figure>`;
}

// The last number holds until now.
function data({ pending }) {
  const now = Date.now() / 1000;
  const known = pending.length ? pending : [[now - SHORTEST, 0]];
  const all = [...known, [now, known[known.length - 1][1]]];
  return [all.map(([at]) => at), all.map(([, number]) => number)];
}
