// What decided about the node that is selected: { parts } of expressions, with a way to them in the editor, and what the
// plugins that accept it have found there: { accepted }.
import { to } from "./address.js";
import { said } from "./said.js";
import { html, useEffect, useState } from "./html.js";
import { ask } from "./session.js";

export function useDecided(subject, node, rules, moment) {
  const [found, set] = useState(null);
  const query = JSON.stringify({ ...subject, node, rules });
  useEffect(() => {
    if (!subject || !node) { set(null); return undefined; }
    let wanted = true;
    ask("decided", { ...subject, node, rules }).then((answer) => answer.json()).then((said) => wanted && set(said.problem ? null : said), () => wanted && set(null));
    return () => { wanted = false; };
  }, [query, moment]);
  return found;
}

export function Decided({ parts }) {
  if (!parts?.length) return null;
  return html`<h3>Expressions</h3><ul class="decided">${parts.map((each, at) => {
    const [from, end] = each.part;
    return html`<li key=${at} class=${each.matches ? "well" : "ill"}><span class="mark" aria-label=${each.matches ? "matches" : "does not match"}>${each.matches ? "✓" : "✕"}</span>
      <a ...${to({ panel: "edit", at: each.path })} title="Show it in the editor"><code>${each.source.slice(0, from)}<mark class=${each.matches ? "well" : ""}>${each.source.slice(from, end)}</mark>${each.source.slice(end)}</code></a>
      <p>${each.taint && `taint ${each.taint}: `}${said(each.why)}</p></li>`;
  })}</ul>`;
}
