// The table twin of the map, for screen readers and for those who would rather read.
import { to } from "./address.js";
import { grouped, usual } from "./groups.js";
import { html } from "./html.js";
import { VERDICTS } from "./map.js";
import { said } from "./said.js";
import { bytesOf, cpuOf } from "./words.js";

// What the verdict's own words do not say already.
function after({ verdict, text }) {
  const meaning = VERDICTS[verdict][1];
  return text.startsWith(meaning) ? text.slice(meaning.length) : `: ${text}`;
}

const judged = (verdict) => verdict && html`<span class=${verdict.verdict}><span class="mark" aria-hidden="true">${VERDICTS[verdict.verdict][0]}</span> ${VERDICTS[verdict.verdict][1]}</span>${verdict.text && said(after(verdict))}`;

export function NodeTable({ placement, address, verdicts }) {
  const nodes = [...placement.nodes.values()];
  const groups = grouped(nodes, address.group || usual(nodes));
  return html`<div class="scroll"><table class="nodes">
    <caption>Nodes, and what is requested of what they have</caption>
    <thead><tr><th scope="col">node</th>${verdicts && html`<th scope="col">verdict</th>`}<th scope="col" class="number">CPU</th><th scope="col" class="number">memory</th><th scope="col" class="number">pods</th><th scope="col">state, taints</th></tr></thead>
    ${groups.map((group) => html`<tbody key=${group.name}>
      ${group.name && html`<tr><th colspan=${verdicts ? 6 : 5} scope="rowgroup">${group.name}</th></tr>`}
      ${group.nodes.map((node) => html`<tr key=${node.name} class=${address.node === node.name ? "chosen" : ""}>
        <th scope="row"><a ...${to({ node: node.name })}>${node.name}</a></th>
        ${verdicts && html`<td class="words verdict-of">${judged(verdicts.get(node.name))}</td>`}
        <td class="number">${cpuOf(node.usage[0], node.usage[1])}</td>
        <td class="number">${bytesOf(node.usage[2], node.usage[3])}</td>
        <td class="number">${node.usage[4]} of ${node.usage[5]}</td>
        <td class="words">${[node.ready ? "ready" : "not ready", node.cordoned && "cordoned"].filter(Boolean).join(", ")}${node.taints.map((taint) => html`<div key=${taint}>${taint.split(/(?<=[=:])/).map((part, at) => html`${at > 0 && html`<wbr />`}${part}`)}</div>`)}</td>
      </tr>`)}</tbody>`)}
  </table></div>`;
}
