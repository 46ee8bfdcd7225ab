// The timeline: what happened in the last hour, and how many pods waited.
import { go, hashOf } from "./address.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { follow } from "./map.js";
import uPlot from "./vendor/uplot.js";
import { clock, cut, nameOf, span } from "./words.js";

const KINDS = ["placed", "evicted", "preempted", "deleted", "waiting", "failed", "taint", "label", "node"];
const SHOWN = 100;
const FOLLOWED = 60;
const SHORTEST = 300; // seconds that the plot shows at least

export function Timeline({ placement, address }) {
  const [kind, choose] = useState("");
  const counts = placement.counts;
  const shown = newest(placement.happened, kind);
  return html`<section class="timeline" aria-label="What happened">
    <div class="facts">
      <h2>Last hour</h2>
      <div class="kinds">${KINDS.filter((each) => counts[each]).map((each) => html`<button key=${each} class="kind ${each}" aria-pressed=${kind === each}
        onClick=${() => choose(kind === each ? "" : each)}>${each} <b>${counts[each].toLocaleString("en")}</b></button>`)}</div>
      <${Plot} placement=${placement} />
    </div>
    <ol class="scroll">${shown.map((each) => html`<li key=${each.number} class=${String(each.number) === address.happening ? "chosen" : ""}>
      <a href=${hashOf(target(each))} onClick=${(event) => follow(event, target(each))}>
        <time>${clock(each.at)}</time> <b class="kind ${each.kind}">${each.kind}</b>
        <span class="name" title=${each.subject}>${cut(nameOf(each.subject), 32)}</span> <span>${each.text}</span>
        <span class="dim cause" title=${each.cause}>${each.cause}</span>
      </a>
      ${String(each.number) === address.happening && html`<${Consequences} of=${each} all=${placement.happened} />`}
    </li>`)}</ol>
    ${!shown.length && html`<p class="hint">Nothing has happened since the page was opened.</p>`}
  </section>`;
}

function newest(happened, kind) {
  const shown = [];
  for (let at = happened.length - 1; at >= 0 && shown.length < SHOWN; at--) {
    if (!kind || happened[at].kind === kind) shown.push(happened[at]);
  }
  return shown;
}

const target = (happening) => ({
  happening: String(happening.number),
  ...(happening.subject.includes("/") ? { pod: happening.subject } : { node: happening.subject }),
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
  useEffect(() => {
    const style = getComputedStyle(document.body);
    const line = style.getPropertyValue("--accent");
    const grey = style.getPropertyValue("--dim");
    plot.current = new uPlot({
      width: box.current.clientWidth, height: 84, legend: { show: false }, cursor: { show: false },
      scales: { x: { range: (_, first, last) => [Math.min(first, last - SHORTEST), last] }, y: { range: (_, __, most) => [0, Math.max(most, 4)] } },
      axes: [{ stroke: grey, size: 22, grid: { show: false }, ticks: { show: false }, font: "10px system-ui", values: (_, at) => at.map((each) => clock(each).slice(0, 5)) },
        { stroke: grey, size: 30, grid: { stroke: grey, width: 0.2 }, ticks: { show: false }, font: "10px system-ui", splits: (self) => [0, Math.ceil(self.scales.y.max / 2), self.scales.y.max], values: (_, at) => at }],
      series: [{}, { stroke: line, width: 1.5, fill: `color-mix(in srgb, ${line} 15%, transparent)`, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
    }, data(placement), box.current);
    const watching = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height: 84 }));
    watching.observe(box.current);
    return () => { watching.disconnect(); plot.current.destroy(); };
  }, []);
  useEffect(() => plot.current?.setData(data(placement)), [placement.revision]);
  const now = placement.unplaced.length;
  return html`<figure><figcaption>Pending pods <b>${now.toLocaleString("en")}</b></figcaption><div ref=${box} role="img" aria-label=${`${now} pods are pending`}></div></figure>`;
}

// The last number holds until now.
function data({ pending }) {
  const last = pending.length ? pending[pending.length - 1][1] : 0;
  const all = [...pending, [Date.now() / 1000, last]];
  return [all.map(([at]) => at), all.map(([, number]) => number)];
}
