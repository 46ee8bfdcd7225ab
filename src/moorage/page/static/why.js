// Why: what is known of the pod or node that is selected.
import { go, hashOf } from "./address.js";
import { html } from "./html.js";
import { follow, Squares } from "./map.js";
import { bytes, count, cpu, nameOf, namespaceOf, span } from "./words.js";

export function Why({ placement, address, stories }) {
  const pod = placement.pods.get(address.pod);
  const node = placement.nodes.get(address.node);
  if (address.pod && !pod) return html`<aside class="why" aria-label="Why"><p>Pod ${address.pod} is gone.</p></aside>`;
  if (!pod && !node) {
    return html`<aside class="why" aria-label="Why"><p class="hint">Select a pod to see why it is where it is, or a node to see what is on it.</p>
      ${stories.length > 0 && html`<p class="hint">New here? <a class="switch" href=${hashOf({ panel: "stories" })} onClick=${(event) => follow(event, { panel: "stories" })}>Play one of ${stories.length} stories</a> on this cluster, and watch.</p>`}</aside>`;
  }
  return html`<aside class="why scroll" aria-label="Why">
    <button class="close" aria-label="Close" onClick=${() => go({ pod: "", node: "" })}>×</button>
    ${pod && html`<${PodFacts} pod=${pod} />`}
    ${node && html`<${NodeFacts} node=${node} placement=${placement} address=${address} />`}
  </aside>`;
}

function PodFacts({ pod }) {
  return html`<section><h2>${nameOf(pod.key)}</h2>
    <dl>
      <dt>namespace</dt><dd>${namespaceOf(pod.key)}</dd>
      <dt>owner</dt><dd>${pod.owner || "none"}</dd>
      <dt>state</dt><dd>${pod.state === "Unscheduled" ? "Pending, no node" : pod.state}</dd>
      <dt>node</dt><dd>${pod.node ? html`<a href=${hashOf({ node: pod.node })} onClick=${(event) => follow(event, { node: pod.node })}>${pod.node}</a>` : "none"}</dd>
      <dt>priority</dt><dd>${pod.priority}</dd>
      <dt>age</dt><dd>${span(Date.now() / 1000 - pod.created)}</dd>
    </dl>
    ${pod.reason && html`<p class="message">${pod.reason}</p>`}
  </section>`;
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
  </section>`;
}
