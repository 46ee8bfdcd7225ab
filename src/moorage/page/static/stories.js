// The stories of the design documents: what each is about, played live, and what to look at.
import { go } from "./address.js";
import { html, useState } from "./html.js";
import { ask } from "./session.js";

const steps = { folder: "", lines: [], playing: false }; // survives when the panel is closed

export function Stories({ stories }) {
  const [, redraw] = useState(0);
  const show = () => redraw((number) => number + 1);
  const chosen = stories.find((story) => story.folder === steps.folder);
  return html`<section class="stories"><h2>Stories</h2>
    <p class="dim">Each comes from one of the four proposals. It brings its own nodes and pods, and takes them away when the next one begins.</p>
    ${chosen && html`<${Playing} story=${chosen} clear=${() => play("", show)} />`}
    <ol>${stories.map((story) => html`<li key=${story.folder}>
      <button disabled=${steps.playing} aria-pressed=${story.folder === steps.folder} onClick=${() => play(story.folder, show)}>
        <span class="dim">${story.document} story ${story.number}</span> ${story.title}</button></li>`)}</ol>
  </section>`;
}

function Playing({ story, clear }) {
  return html`<div class="playing" role="log" aria-label="What happens">
    <h3>${story.title}</h3>
    ${steps.lines.map((line, at) => (line.did
    ? html`<p key=${at}><code>${line.did}</code></p>`
    : html`<p key=${at} class=${line.well ? "well" : "ill"}><span class="mark">${line.well ? "✓" : "✗"}</span>
        <a href="#" onClick=${(event) => { event.preventDefault(); go({ find: line.what }); }}>${line.what}</a>: ${line.seen}<br /><span class="dim">${line.because}</span></p>`))}
    ${steps.playing ? html`<p class="dim">watch the map…</p>` : html`<button onClick=${clear}>Take it away</button>`}
  </div>`;
}

async function play(folder, show) {
  Object.assign(steps, { folder, lines: [], playing: true });
  show();
  try {
    const answer = await ask("story", { folder });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      steps.lines.push(...lines.map((line) => JSON.parse(line)));
      show();
    }
  } catch (error) {
    steps.lines.push({ what: "story", seen: error.message, because: "", well: false });
  }
  steps.playing = false;
  show();
}
