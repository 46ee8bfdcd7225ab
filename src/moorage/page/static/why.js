// Why: what the scheduler says of the pod or template that is selected, on the node that is selected or on all of them.
import { chooseTemplate, closed, go, subjectOf, to } from "./address.js";
import { Copy } from "./copy.js";
import { Cut } from "./cut.js";
import { Decided } from "./decided.js";
import { Editor } from "./editor.js";
import { html, useMemo, useState } from "./html.js";
import { MEANINGS } from "./keys.js";
import { Squares, VERDICTS } from "./map.js";
import { Countdown } from "./pods.js";
import { command, said } from "./said.js";
import { folded, leaves, subjectIn } from "./verdicts.js";
import { NodeChanges, WorkloadChanges } from "./whatif.js";
import { bytesOf, clock, count, cpuOf, inOrder, nameOf, namespaceOf, span, stateOf } from "./words.js";

const SHOWN = 4;
const ENDS = 6; // so many of the last things that happened to a pod that is gone
const EDITING = ["edit", "save"];

export function Why({ placement, address, cluster, answer, verdicts, decided, tryOut }) {
  const pod = placement.pods.get(address.pod);
  const node = placement.nodes.get(address.node);
  const subject = pod ? { pod: pod.key } : address.pod ? null : subjectOf(address);
  const template = pod ? `${namespaceOf(pod.key)}/${pod.owner}` : subject?.template || "";
  const pods = usePods(template, placement);
  const close = html`<button class="close" aria-label="Close" onClick=${() => go(closed)}>×</button>`;
  if (address.pod && !pod) return html`<aside class="why scroll" aria-label="Why" tabindex="0">${close}<${Gone} of=${address.pod} placement=${placement} /></aside>`;
  if (!subject && !node) {
    return html`<aside class="why scroll" aria-label="Why" tabindex="-1"><p class="hint">Select a pod to see why it is where it is<span class="wide">, or a node to see what is on it</span>.</p>
      ${cluster.stories.length > 0 && html`<p class="hint">New here? <a class="link" ...${to({ panel: "stories" })}>Play one of ${cluster.stories.length} stories</a> on this cluster, and watch.</p>`}
      <${Signs} /><h3 class="hint-title wide">Keys</h3>
      <dl class="hint keys wide">${MEANINGS.map(([key, meaning]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${meaning}</dd>`)}</dl></aside>`;
  }
  const isEditing = EDITING.includes(address.panel);
  return html`<aside class="why scroll" aria-label="Why" tabindex="0">
    ${close}
    ${pod && html`<${PodFacts} pod=${pod} isEditing=${isEditing} />`}
    ${!pod && subject && html`<${TemplateFacts} template=${template} pods=${pods} isEditing=${isEditing} />`}
    ${subject && isEditing && html`<${Editor} key=${address.pod || address.template} subject=${subject} address=${address} placement=${placement} cluster=${cluster} decided=${decided?.parts} tryOut=${tryOut} />`}
    ${subject && html`<${Answer} answer=${answer} pod=${pod} verdicts=${verdicts} node=${node} placement=${placement} decided=${decided} />`}
    ${subject && html`<${WorkloadChanges} template=${template} pods=${pods} address=${address} />`}
    ${node && html`<${NodeFacts} node=${node} placement=${placement} address=${address} />`}
  </aside>`;
}

// What the squares and the marks on the tiles mean.
const PODS = [["full", "running"], ["half", "starting"], ["hollow", "pending"], ["fading", "terminating"], ["cross", "failed"], ["full doomed", "evicted soon"]];
const MARKS = ["best", "fits", "here", "evicted", "refused"];
const Signs = () => html`<h3 class="hint-title wide">Pods</h3>
  <dl class="signs">${PODS.map(([shape, meaning]) => html`<dt key=${shape}><i class="pod ${shape}"></i></dt><dd>${meaning}</dd>`)}</dl>
  <h3 class="hint-title wide">Nodes, for the pod that is selected</h3>
  <dl class="signs">${MARKS.map((verdict) => html`<dt key=${verdict} class=${verdict}><span class="mark">${VERDICTS[verdict][0]}</span></dt><dd>${VERDICTS[verdict][1]}</dd>`)}</dl>`;

const EditLink = ({ isEditing }) => (isEditing
  ? html`<a class="link right" ...${to({ panel: "", rules: "", at: "" })}>close the rules</a>`
  : html`<a class="link right" ...${to({ panel: "edit" })}>change its rules</a>`);

// A pod that there is no more: what is known of its end, and what came in its place.
function Gone({ of, placement }) {
  const known = placement.happened.filter((each) => each.subject === of);
  const owner = known.find((each) => each.owner)?.owner;
  const template = owner && chooseTemplate(`${namespaceOf(of)}/${owner}`);
  return html`<section><h2>${nameOf(of)}</h2><p>${known.length ? `Pod ${of} is gone.` : `There is no pod ${of}, and nothing is known of one in the last hour.`}</p>
    ${known.length > 0 && html`<ul class="ends">${known.slice(-ENDS).reverse().map((each) => html`<li key=${each.number}><time class="dim">${clock(each.at)}</time> <b class=${each.kind}>${each.kind}</b> ${each.text} <p class="dim">${said(each.cause)}</p></li>`)}</ul>`}
    ${owner && html`<p>It belonged to <a class="link" ...${to(template)}>${owner}</a>.</p>`}</section>`;
}

function PodFacts({ pod, isEditing }) {
  const namespace = namespaceOf(pod.key);
  const facts = [stateOf(pod), `priority ${pod.priority}`, `${span(Date.now() / 1000 - pod.created)} old`];
  const template = chooseTemplate(`${namespace}/${pod.owner}`);
  return html`<section><h2>${nameOf(pod.key)}</h2>
    <p class="facts"><span>${namespace}</span> <span>${pod.owner ? html`<a class="link" ...${to(template)} title="Ask about its template"><${Cut} text=${pod.owner} /></a>` : "no owner"}</span> ${facts.map((fact, at) => html`<span key=${at}>${fact}</span> `)}</p>
    <p>${pod.node ? html`on <a class="link" ...${to({ node: pod.node })}>${pod.node}</a>` : "on no node"}
      <${EditLink} isEditing=${isEditing} /></p>
  </section>`;
}

// How many pods a workload has now.
const usePods = (template, placement) => useMemo(() => {
  let number = 0;
  for (const { key, owner } of placement.pods.values()) if (owner === nameOf(template) && namespaceOf(key) === namespaceOf(template)) number++;
  return number;
}, [template, placement.pods.size]);

function TemplateFacts({ template, pods, isEditing }) {
  const namespace = namespaceOf(template);
  const owner = nameOf(template);
  return html`<section><h2>${owner}</h2><p><span class="dim">${namespace} · template of ${count(pods, "pod")}</span> <${EditLink} isEditing=${isEditing} /></p></section>`;
}

function Answer({ answer, pod, verdicts, node, placement, decided }) {
  if (!answer) return html`<section class="waiting" aria-busy="true"><p class="dim">asking the scheduler…</p></section>`;
  if (answer.problem) return html`<section><p class="message">${answer.problem}</p></section>`;
  const fitting = answer.nodes.reduce((sum, fit) => sum + fit.names.length, 0);
  return html`<section>
    <p class="verdict ${answer.fits ? "well" : "ill"}"><span class="mark" aria-hidden="true">${answer.fits ? "●" : "✕"}</span> may run on ${fitting.toLocaleString("en")} of ${count(placement.nodes.size, "node")}</p>
    ${(answer.admissionErrors || []).map((error) => html`<p class="message">refused by admission: ${said(error)}</p>`)}
    ${answer.evictedFor && html`<p class="message">is evicted ${pod?.evictAt ? html`<${Countdown} to=${pod.evictAt} />` : answer.evictedAfterSeconds ? `after ${span(answer.evictedAfterSeconds)}` : "at once"}: ${said(answer.evictedFor)}</p>`}
    ${answer.rejected.map((each) => html`<p class="message">refused by every node: ${said(each.reason)}</p>`)}
    ${node ? html`<${OnNode} answer=${answer} verdict=${verdicts?.get(node.name)} name=${node.name} decided=${decided} />` : html`<${Everywhere} answer=${answer} />`}
    ${answer.preemption && html`<p class="message">Preemption would remove ${answer.preemption.victims.map(nameOf).join(", ")} from ${answer.preemption.node}.</p>`}
    <${Change} title="Smallest change" change=${answer.smallestChange} />
    <${Change} title="Or of the cluster" change=${answer.clusterChange} />
    ${(answer.notes || []).map((note) => html`<p class="dim">note: ${said(note)}</p>`)}
  </section>`;
}

// Each plugin's verdict on one node, in its order.
function OnNode({ answer, verdict, name, decided }) {
  if (!verdict) return null;
  const reasons = verdict.reasons || [];
  return html`<h3>on <${Cut} text=${name} /> <a class="link right" ...${to({ node: "" })}>all nodes</a></h3>
    <ol class="plugins">${answer.plugins.map((plugin) => {
    const against = reasons.filter((reason) => reason.plugin === plugin);
    const found = (!against.length && decided?.accepted[plugin]) || [];
    return html`<li key=${plugin} class="${against.length ? "ill" : "well"} ${against.length || found.length ? "told" : ""}"><span class="mark" role="img" aria-label=${against.length ? "refuses" : "accepts"}>${against.length ? "✕" : "✓"}</span> ${plugin}
      ${against.map((reason) => html`<p>${reason.subject}: ${said(reason.reason)}</p>`)}${found.map((text) => html`<p key=${text}>${said(text)}</p>`)}</li>`;
  })}</ol>
    ${reasons.filter((reason) => !answer.plugins.includes(reason.plugin)).map((reason) => html`<p class="message">${reason.subject}: ${said(reason.reason)}</p>`)}
    <${Decided} parts=${decided?.parts} />
    ${verdict.fit && html`<${Scores} fit=${verdict.fit} />`}`;
}

function Scores({ fit }) {
  const most = Math.max(1, ...Object.values(fit.scores));
  return html`<table class="scores"><caption>Score ${fit.score}</caption><tbody>${Object.entries(fit.scores).map(([plugin, score]) => html`<tr key=${plugin}><th scope="row">${plugin}</th><td class="part"><i style=${{ width: `${(100 * score) / most}%` }}></i></td><td>${score}</td></tr>`)}</tbody></table>`;
}

function Everywhere({ answer }) {
  const [all, show] = useState(false);
  const refusals = useMemo(() => folded(answer.refused), [answer]);
  const groups = all ? refusals : refusals.slice(0, SHOWN);
  const fewer = answer.nodes.slice(SHOWN).reduce((sum, fit) => sum + fit.names.length, 0);
  return html`${answer.nodes.slice(0, SHOWN).map((fit, at) => html`<p key=${at} class=${leaves(fit) ? "evicted" : "well"}><span class="mark" aria-hidden="true">${leaves(fit) ? "◷" : at ? "●" : "★"}</span> <${Names} names=${fit.names} /> <span class="dim">score ${fit.score}${leaves(fit) && `, ${leaves(fit)}`}</span></p>`)}
    ${fewer > 0 && html`<p class="dim because">and ${count(fewer, "node")} with a lower score</p>`}
    ${groups.map((refused, at) => html`<div key=${at} class="refusal ill"><p><span class="mark" aria-hidden="true">✕</span> <${Names} names=${refused.names} /></p>
      ${refused.reasons.map((reason) => html`<p class="because">${said(subjectIn(reason))}: ${said(reason.reason)}</p>`)}</div>`)}
    ${refusals.length > SHOWN && html`<button aria-expanded=${all} onClick=${() => show(!all)}>${all ? "fewer" : count(refusals.length - SHOWN, "more reason")}</button>`}`;
}

function Names({ names }) {
  const links = [...names].sort(inOrder).slice(0, 3).map((name) => html`<a key=${name} class="link" ...${to({ node: name })}><${Cut} text=${name} /></a>`);
  return html`<span class="names">${names.length > 3 && html`<b>${count(names.length, "node")}</b>: `}${links}${names.length > 3 && "…"}</span>`;
}

function Change({ title, change }) {
  if (!change) return null;
  const commands = (change.commands || []).join("\n");
  return html`<div class="change"><h3>${title}</h3><p>${said(change.edits.join(" and "))} <span class="dim">admits ${count(change.admits.length, "node")}</span></p>
    ${commands && html`${command(commands)}<${Copy} text=${commands}>copy as kubectl</${Copy}>`}</div>`;
}

function NodeFacts({ node, placement, address }) {
  const pods = [...placement.podsOn(node.name)].map((key) => placement.pods.get(key));
  const [cpuUsed, cpuMost, memoryUsed, memoryMost, podsUsed, podsMost] = node.usage;
  return html`<section><h2>${node.name}</h2>
    <dl>
      <dt>state</dt><dd>${node.ready ? "ready" : "not ready"}${node.cordoned ? ", cordoned" : ""}</dd>
      <dt>CPU</dt><dd>${cpuOf(cpuUsed, cpuMost)} requested</dd>
      <dt>memory</dt><dd>${bytesOf(memoryUsed, memoryMost)} requested</dd>
      <dt>pods</dt><dd>${podsUsed} of ${podsMost}</dd>
      ${node.taints.length > 0 && html`<dt>taints</dt><dd>${node.taints.map((taint) => html`<code>${taint}</code>`)}</dd>`}
      <dt>labels</dt><dd>${Object.entries(node.labels).sort().map(([key, value]) => html`<code>${key}=${value}</code>`)}</dd>
    </dl>
    <h3>${count(pods.length, "pod")}</h3><${Squares} pods=${pods} address=${address} isList />
    <${NodeChanges} node=${node} address=${address} />
  </section>`;
}
