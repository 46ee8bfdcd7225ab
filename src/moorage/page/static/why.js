// Why: what the scheduler says of the pod that is selected, on the node that is selected or on all of them.
import { go, hashOf } from "./address.js";
import { Editor } from "./editor.js";
import { html, useState } from "./html.js";
import { follow, Squares } from "./map.js";
import { NodeChanges, PodChanges } from "./whatif.js";
import { bytes, count, cpu, cut, nameOf, namespaceOf, span } from "./words.js";

const SHOWN = 4;

export function Why({ placement, address, stories, answer, verdicts, tryOut }) {
  const pod = placement.pods.get(address.pod);
  const node = placement.nodes.get(address.node);
  if (address.pod && !pod) return html`<aside class="why" aria-label="Why"><p>Pod ${address.pod} is gone.</p></aside>`;
  if (!pod && !node) {
    return html`<aside class="why" aria-label="Why"><p class="hint">Select a pod to see why it is where it is, or a node to see what is on it.</p>
      ${stories.length > 0 && html`<p class="hint">New here? <a class="switch" href=${hashOf({ panel: "stories" })} onClick=${(event) => follow(event, { panel: "stories" })}>Play one of ${stories.length} stories</a> on this cluster, and watch.</p>`}</aside>`;
  }
  return html`<aside class="why scroll" aria-label="Why" tabindex="0">
    <button class="close" aria-label="Close" onClick=${() => go({ pod: "", node: "", panel: "" })}>×</button>
    ${pod && html`<${PodFacts} pod=${pod} />`}
    ${pod && address.panel === "edit" && html`<${Editor} key=${pod.key} pod=${pod} placement=${placement} tryOut=${tryOut} />`}
    ${pod && html`<${PodChanges} pod=${pod} address=${address} />`}
    ${pod && html`<${Answer} answer=${answer} verdicts=${verdicts} node=${node} placement=${placement} pod=${pod} />`}
    ${node && html`<${NodeFacts} node=${node} placement=${placement} address=${address} />`}
  </aside>`;
}

function PodFacts({ pod }) {
  const facts = [namespaceOf(pod.key), pod.owner || "no owner", pod.state === "Unscheduled" ? "Pending" : pod.state, `priority ${pod.priority}`, `${span(Date.now() / 1000 - pod.created)} old`];
  return html`<section><h2>${nameOf(pod.key)}</h2>
    <p class="dim">${facts.join(" · ")}</p>
    <p>${pod.node ? html`on <a class="switch" href=${hashOf({ node: pod.node })} onClick=${(event) => follow(event, { node: pod.node })}>${pod.node}</a>` : "on no node"}
      <a class="switch right" href=${hashOf({ panel: "edit" })} onClick=${(event) => follow(event, { panel: "edit" })}>try other rules</a></p>
  </section>`;
}

function Answer({ answer, verdicts, node, placement }) {
  if (!answer) return html`<section class="waiting" aria-busy="true"><p class="dim">asking the scheduler…</p></section>`;
  if (answer.problem) return html`<section><p class="message">${answer.problem}</p></section>`;
  const fitting = answer.nodes.reduce((sum, fit) => sum + fit.names.length, 0);
  return html`<section>
    <p class="verdict ${answer.fits ? "well" : "ill"}"><span class="mark" aria-hidden="true">${answer.fits ? "●" : "✕"}</span> may run on ${fitting} of ${count(placement.nodes.size, "node")}</p>
    ${(answer.admissionErrors || []).map((error) => html`<p class="message">refused by admission: ${error}</p>`)}
    ${answer.evictedFor && html`<p class="message">is evicted ${answer.evictedAfterSeconds ? `after ${span(answer.evictedAfterSeconds)}` : "at once"}: ${answer.evictedFor}</p>`}
    ${answer.rejected.map((each) => html`<p class="message">refused by every node: ${each.reason}</p>`)}
    ${node ? html`<${OnNode} answer=${answer} verdict=${verdicts?.get(node.name)} name=${node.name} />` : html`<${Everywhere} answer=${answer} />`}
    ${answer.preemption && html`<p class="message">Preemption would remove ${answer.preemption.victims.map(nameOf).join(", ")} from ${answer.preemption.node}.</p>`}
    <${Change} title="Smallest change" change=${answer.smallestChange} />
    <${Change} title="Or of the cluster" change=${answer.clusterChange} />
    ${(answer.notes || []).map((note) => html`<p class="dim">note: ${note}</p>`)}
  </section>`;
}

// Each plugin's verdict on one node, in its order.
function OnNode({ answer, verdict, name }) {
  if (!verdict) return null;
  const reasons = verdict.reasons || [];
  return html`<h3>on ${cut(name, 34)}</h3>
    <ol class="plugins">${answer.plugins.map((plugin) => {
    const against = reasons.filter((reason) => reason.plugin === plugin);
    return html`<li key=${plugin} class=${against.length ? "ill" : "well"}><span class="mark" aria-label=${against.length ? "refuses" : "accepts"}>${against.length ? "✕" : "✓"}</span> ${plugin}
      ${against.map((reason) => html`<p>${reason.subject}: ${reason.reason}</p>`)}</li>`;
  })}</ol>
    ${reasons.filter((reason) => !answer.plugins.includes(reason.plugin)).map((reason) => html`<p class="message">${reason.subject}: ${reason.reason}</p>`)}
    ${verdict.fit && html`<${Scores} fit=${verdict.fit} />`}`;
}

function Scores({ fit }) {
  return html`<table class="scores"><caption>score ${fit.score}</caption><tbody>${Object.entries(fit.scores).map(([plugin, score]) => html`<tr key=${plugin}><th scope="row">${plugin}</th><td>${score}</td></tr>`)}</tbody></table>`;
}

function Everywhere({ answer }) {
  const [all, show] = useState(false);
  const groups = all ? answer.refused : answer.refused.slice(0, SHOWN);
  return html`${answer.nodes.slice(0, SHOWN).map((fit, at) => html`<p key=${at} class="well"><span class="mark">${at ? "●" : "★"}</span> <${Names} names=${fit.names} /> <span class="dim">score ${fit.score}</span></p>`)}
    ${groups.map((refused, at) => html`<div key=${at} class="refusal ill"><p><span class="mark">✕</span> <${Names} names=${refused.names} /></p>
      ${refused.reasons.map((reason) => html`<p class="because">${reason.subject}: ${reason.reason}</p>`)}</div>`)}
    ${answer.refused.length > SHOWN && html`<button onClick=${() => show(!all)}>${all ? "fewer" : `${answer.refused.length - SHOWN} more reasons`}</button>`}`;
}

function Names({ names }) {
  const links = names.slice(0, 3).map((name) => html`<a key=${name} class="switch" href=${hashOf({ node: name })} onClick=${(event) => follow(event, { node: name })}>${cut(name, 26)}</a>`);
  return html`<span class="names">${names.length > 3 && html`<b>${count(names.length, "node")}</b>: `}${links}${names.length > 3 && "…"}</span>`;
}

function Change({ title, change }) {
  const [copied, copy] = useState(false);
  if (!change) return null;
  const commands = change.commands || [];
  return html`<div class="change"><h3>${title}</h3><p>${change.edits.join(" and ")} <span class="dim">admits ${count(change.admits.length, "node")}</span></p>
    ${commands.length > 0 && html`<pre>${commands.join("\n")}</pre>
      <button onClick=${async () => { await navigator.clipboard.writeText(commands.join("\n")); copy(true); }}>${copied ? "copied" : "copy as kubectl"}</button>`}</div>`;
}

function NodeFacts({ node, placement, address }) {
  const pods = [...placement.podsOn(node.name)].map((key) => placement.pods.get(key));
  const [cpuUsed, cpuMost, memoryUsed, memoryMost, podsUsed, podsMost] = node.usage;
  return html`<section><h2>${node.name}</h2>
    <dl>
      <dt>state</dt><dd>${node.ready ? "ready" : "not ready"}${node.cordoned ? ", cordoned" : ""}</dd>
      <dt>CPU</dt><dd>${cpu(cpuUsed)} of ${cpu(cpuMost)} requested</dd>
      <dt>memory</dt><dd>${bytes(memoryUsed)} of ${bytes(memoryMost)} requested</dd>
      <dt>pods</dt><dd>${podsUsed} of ${podsMost}</dd>
      ${node.taints.length > 0 && html`<dt>taints</dt><dd>${node.taints.map((taint) => html`<code>${taint}</code>`)}</dd>`}
      <dt>labels</dt><dd>${Object.entries(node.labels).sort().map(([key, value]) => html`<code>${key}=${value}</code>`)}</dd>
    </dl>
    <h3>${count(pods.length, "pod")}</h3><${Squares} pods=${pods} address=${address} />
    <${NodeChanges} node=${node} address=${address} />
  </section>`;
}
