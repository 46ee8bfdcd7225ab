// The table twin of the map, for screen readers and for those who would rather read.
import { to } from "./address.js";
import { grouped, usual } from "./groups.js";
import { html, useMemo } from "./html.js";
import { VERDICTS } from "./map.js";
import { said } from "./said.js";
import { bytesOf, cpuOf } from "./words.js";

const MANY = 300; // rows that are kept up to date at every change
const SLOWLY = 2000;

// What the verdict's own words do not say already.
function after({ verdict, text }) {
  const meaning = VERDICTS[verdict][1];
  return text.startsWith(meaning) ? text.slice(meaning.length) : `: ${text}`;
}

const judged = (verdict) => verdict && html`<span class=${verdict.verdict}><span class="mark" aria-hidden="true">${VERDICTS[verdict.verdict][0]}</span> ${VERDICTS[verdict.verdict][1]}</span>${verdict.text && said(after(verdict))}`;

// Drawn anew only when something about it has changed: thousands of rows stand still while others move.
const Row = ({ node, verdict, isJudged, chosen, here }) => useMemo(() => html`<tr class=${chosen ? "chosen" : ""}>
  <th scope="row"><a ...${to({ node: node.name })}>${node.name}</a></th>
  ${isJudged && html`<td class="words verdict-of">${judged(verdict)}</td>`}
  <td class="number">${cpuOf(node.usage[0], node.usage[1])}</td>
  <td class="number">${bytesOf(node.usage[2], node.usage[3])}</td>
  <td class="number">${node.usage[4]} of ${node.usage[5]}</td>
  <td class="words">${[node.ready ? "ready" : "not ready", node.cordoned && "cordoned"].filter(Boolean).join(", ")}${node.taints.map((taint) => html`<div key=${taint}>${taint.split(/(?<=[=:])/).map((part, at) => html`${at > 0 && html`<wbr />`}${part}`)}</div>`)}</td>
</tr>`, [node, verdict?.verdict, verdict?.text, isJudged, chosen, here]);

export function NodeTable({ placement, address, verdicts }) {
  const way = address.group || usual([...placement.nodes.values()]);
  const groups = useMemo(() => grouped([...placement.nodes.values()], way), [placement.places, way]);
  // Thousands of rows at every change would leave no time for anything else.
  const moment = placement.nodes.size > MANY ? Math.floor(Date.now() / SLOWLY) : placement.revision;
  return useMemo(() => html`<div class="scroll"><table class="nodes">
    <caption>Nodes, and what is requested of what they have</caption>
    <thead><tr><th scope="col">node</th>${verdicts && html`<th scope="col">verdict</th>`}<th scope="col" class="number">CPU</th><th scope="col" class="number">memory</th><th scope="col" class="number">pods</th><th scope="col">state, taints</th></tr></thead>
    ${groups.map((group) => html`<tbody key=${group.name}>
      ${group.name && html`<tr><th colspan=${verdicts ? 6 : 5} scope="rowgroup">${group.name}</th></tr>`}
      ${group.nodes.map(({ name }) => html`<${Row} key=${name} node=${placement.nodes.get(name)} verdict=${verdicts?.get(name)} isJudged=${Boolean(verdicts)} chosen=${address.node === name} here=${location.hash} />`)}</tbody>`)}
  </table></div>`, [groups, moment, verdicts, address.node, location.hash]);
}
