// The timeline: what happened in the last hour, and how many pods waited.
import { choosePod, go, to } from "./address.js";
import { Cut } from "./cut.js";
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { shortReason } from "./pods.js";
import { said } from "./said.js";
import uPlot from "./vendor/uplot.js";
import { HAPPENINGS } from "./placement.js";
import { clock, cut, nameOf, span } from "./words.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const KINDS = ["placed", "evicted", "preempted", "deleted", "waiting", "failed", "taint", "label", "node"];
const SHOWN = 100;
const CAUSES = 20;
const PLOT = 134; // pixels
const FOLLOWED = 60;
const SHORTEST = 300; // seconds that the plot shows at least
const LONGEST = 3600;
const LOWEST = 4; // pods that the plot has room for at least

export function Timeline({ placement, address }) {
  const kind = address.kind;
  const counts = placement.counts;
  const shown = newest(placement.happened, kind, address.cause);
  const isCut = placement.happened.length >= HAPPENINGS; // of an hour in which more has happened the last is kept
  return html`<section class="timeline" aria-label="What happened">
    <${Plot} placement=${placement} />
    <div class="happened">
      <div class="kinds"><h2>${isCut ? `Last ${span(Date.now() / 1000 - placement.happened[0].at)}` : "Last hour"}</h2>${KINDS.filter((each) => counts[each]).map((each) => html`<button key=${each} class="kind ${each}" aria-pressed=${kind === each}
        onClick=${() => go({ kind: kind === each ? "" : each, cause: "" })}>${each} <b>${counts[each].toLocaleString("en")}</b></button>`)}
        <${Causes} placement=${placement} address=${address} /></div>
      <ol class="scroll" tabindex="0" aria-label="What happened, the newest first">${shown.map((each) => html`<${Row} key=${each.number} of=${each} all=${placement.happened} chosen=${String(each.number) === address.happening} here=${location.hash} />`)}
    ${!shown.length && placement.epoch && html`<li class="hint">Nothing has happened in the last hour, as far as is known.</li>`}</ol></div>
  </section>`;
}

function Row({ of, all, chosen, here }) {
  const line = useMemo(() => html`<a ...${to(target(of))}>
    <time>${clock(of.at)}</time> <b class="kind ${of.kind}">${of.kind}</b>
    <span class="name"><${Cut} text=${nameOf(of.subject)} /></span> <span class="what">${of.text}</span>
    <span class="dim cause" title=${of.cause}>${of.kind === "waiting" ? shortReason(of.cause) : said(of.cause)}</span></a>`, [of, here]);
  const box = useRef();
  useEffect(() => { if (chosen) box.current.scrollIntoView({ block: "nearest" }); }, [chosen]);
  return html`<li ref=${box} class=${chosen ? "chosen" : ""}>${line}${chosen && html`<${Consequences} of=${of} all=${all} />`}</li>`;
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
  return html`<div class="after">${of.cause && html`<p>${said(of.cause)}</p>`}
    ${later.length ? html`<p class="dim">What followed:</p><ul>${later.map((each) => html`<li key=${each.number}><time>${span(each.at - of.at)} later</time> <b class=${each.kind}>${each.kind}</b> ${nameOf(each.subject)} ${each.text}</li>`)}</ul>` : html`<p class="dim">${Date.now() / 1000 - of.at < FOLLOWED ? "Nothing has followed yet." : `Nothing followed within ${span(FOLLOWED)}.`}</p>`}</div>`;
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
    const font = `11px ${style.fontFamily}`;
    plot.current = new uPlot({
      width: box.current.clientWidth, height: PLOT, legend: { show: false }, cursor: { show: false },
      scales: { x: { range: (_, first, last) => [Math.max(last - LONGEST, Math.min(first, last - SHORTEST)), last] }, y: { range: (_, __, most) => [0, rounded(most)] } },
      axes: [{ stroke: grey, size: 22, grid: { show: false }, ticks: { show: false }, font, values: (_, at) => at.map((each) => clock(each).slice(0, 5)) },
        { stroke: grey, size: (_, labels) => 16 + 6 * Math.max(2, ...(labels || []).map((each) => each.length)), grid: { stroke: grey, width: 0.2 }, ticks: { show: false }, font,
          splits: (self) => [0, self.scales.y.max / 2, self.scales.y.max], values: (_, at) => at.map((each) => each.toLocaleString("en")) }],
      series: [{}, { stroke: line, width: 1.5, fill: `color-mix(in srgb, ${line} 15%, transparent)`, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
    }, data(placement), box.current);
    const watching = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height: PLOT }));
    watching.observe(box.current);
    return () => { watching.disconnect(); plot.current.destroy(); };
  }, [isDark]);
  useEffect(() => plot.current?.setData(data(placement)), [placement.revision]);
  const now = placement.unplaced.length;
  return html`<figure><figcaption>Pending pods <b>${placement.epoch ? now.toLocaleString("en") : ""}</b></figcaption><div ref=${box} role="img" aria-label=${`${now} pods are pending`}></div></figure>`;
}

// The top of the axis: a round number, half of which is one too.
function rounded(most) {
  const step = 10 ** Math.floor(Math.log10(Math.max(most, LOWEST)));
  return [1, 2, 4, 6, 8, 10].map((times) => times * step).find((each) => each >= Math.max(most, LOWEST));
}

// The last number holds until now.
function data({ pending, epoch }) {
  const now = Date.now() / 1000;
  const known = pending.length ? pending : [[now - SHORTEST, epoch ? 0 : null]]; // nothing is drawn of what is not known
  const all = [...known, [now, known[known.length - 1][1]]];
  return [all.map(([at]) => at), all.map(([, number]) => number)];
}
