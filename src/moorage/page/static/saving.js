// Saves rules to where they last: what would change is shown first, with who else owns it.
import { go } from "./address.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { ask } from "./session.js";

export function Saving({ subject, text, written, isChanged, answer, address, readOnly, saved }) {
  const [plan, show] = useState(null); // what the server said: { diff, conflicts, … } or { problem }
  const [done, finish] = useState("");
  const isShown = address.panel === "save";
  const send = async (digest) => {
    try {
      return await (await ask("save", { ...subject, rules: text, digest })).json();
    } catch (error) {
      return { problem: error.message };
    }
  };
  useEffect(() => {
    show(null);
    if (isShown && text !== null) send("").then(show);
  }, [isShown, text]);
  useEffect(() => { if (isChanged) finish(""); }, [isChanged]);
  const save = async () => {
    const made = await send(plan.digest);
    if (!made.saved) return show({ ...made, again: !made.problem });
    finish(made.target);
    await saved();
    go({ panel: "edit", rules: "", at: "" });
  };
  if (readOnly) return html`<p class="dim">This page only reads: rules can be tried out, not saved.</p>`;
  if (written.obstacle) return html`<p class="message">Cannot be saved here. ${written.obstacle}</p>`;
  const cannot = answer.errors.length > 0 || (answer.immutable || []).length > 0;
  return html`<div class="saving">
    ${done && html`<p class="well" role="status"><span class="mark" aria-hidden="true">✓</span> Saved to ${done}.</p>`}
    <p class="dim">${written.consequence}</p>
    ${(answer.immutable || []).map((each) => html`<p key=${each} class="message">cannot be saved: ${each}</p>`)}
    ${!isShown && html`<button disabled=${!isChanged || cannot} onClick=${() => go({ panel: "save" })}>Save…</button>`}
    ${isShown && html`<${Plan} plan=${plan} save=${save} />`}
  </div>`;
}

function Plan({ plan, save }) {
  const box = useRef();
  // The button that asked is gone: what it has brought has the focus, and the next one is that which saves.
  useEffect(() => box.current?.focus(), [plan]);
  const back = html`<button onClick=${() => go({ panel: "edit" })}>Back</button>`;
  if (!plan) return html`<p class="dim" aria-busy="true">asking the server what would change…</p>`;
  if (plan.problem) return html`<p class="message" role="alert">${plan.problem}</p>${back}`;
  if (!plan.diff.length) return html`<p>Nothing would change.</p>${plan.stays.map((each) => html`<p class="message">${each}</p>`)}${back}`;
  return html`<div class="plan" role="group" aria-label="What would be saved">
    ${plan.again && html`<p class="message" role="alert">It has changed since you looked: look again.</p>`}
    <h3>${plan.target} would change</h3>
    <pre class="diff" tabindex="0" ref=${box}>${plan.diff.map((line, at) => html`<span key=${at} class=${{ "+": "added", "-": "removed" }[line[0]] || ""}>${line}${"\n"}</span>`)}</pre>
    ${plan.inAnnotations && html`<p class="dim">This API server does not take these rules, so they stand in annotations, for Moorage beside it.</p>`}
    ${plan.conflicts.map((each) => html`<p key=${each.field} class="message"><b>${each.manager}</b> owns <code>${each.field}</code>: saving takes it over.</p>`)}
    ${plan.also.length > 0 && html`<p class="message">The server would change this too: ${plan.also.join(", ")}</p>`}
    ${plan.stays.map((each) => html`<p key=${each} class="message">${each}</p>`)}
    <p class="buttons"><button class="main" onClick=${save}>${plan.conflicts.length ? `Take over from ${[...new Set(plan.conflicts.map((each) => each.manager))].join(", ")} and save` : `Save to ${plan.target}`}</button> ${back}</p>
  </div>`;
}
