// The stories of the design documents: what each is about, played live, and what to look at.
import { go, to } from "./address.js";
import { html, useState } from "./html.js";
import { shortReason } from "./pods.js";
import { command, said } from "./said.js";
import { ask } from "./session.js";

const TOPICS = { thresholds: "Thresholds", versions: "Versions", expressions: "Expressions", keys: "Families of keys" };
const steps = { folder: "", lines: [], playing: false }; // survives when the panel is closed
let onStage = null; // the story whose objects are on the cluster

export function Stories({ stories, chosen, before, isFresh }) {
  onStage ??= before;
  const [, redraw] = useState(0);
  const show = () => redraw((number) => number + 1);
  const story = stories.find(({ folder }) => folder === (chosen || onStage));
  const topics = [...new Set(stories.map((each) => each.folder.split("-")[0]))];
  return html`<section class="stories"><h2>Stories</h2>
    <p class=${isFresh ? "" : "dim"}>${isFresh && html`<b>Nothing runs on this cluster yet.</b> `}Play a story: it brings its own nodes and pods, and takes them away when the next one begins. <span class="wide">Watch the map, and the timeline below.</span></p>
    ${story && html`<${Playing} story=${story} show=${show} />`}
    ${topics.map((topic) => {
    const own = stories.filter((each) => each.folder.startsWith(`${topic}-`));
    return html`<h3 key=${topic}>${TOPICS[topic] || topic} <span class="dim">${own[0].document}</span></h3>
      <ol>${own.map((each, at) => html`<li key=${each.folder}><button class=${isFresh && !story && at === 0 && topic === topics[0] ? "main" : ""} disabled=${steps.playing} aria-pressed=${each === story}
        onClick=${() => play(each, show)}>${each.title}</button></li>`)}</ol>`;
  })}
  </section>`;
}

function Playing({ story, show }) {
  const isMine = steps.folder === story.folder;
  const lines = isMine ? steps.lines : [];
  const isPlaying = isMine && steps.playing;
  return html`<div class="playing" role="log" aria-label="What happens">
    <h3>${story.title}</h3>
    ${lines.map((line, at) => (line.did
    ? html`<div key=${at} class="did">${line.did.startsWith("kubectl ") ? command(line.did) : line.did}</div>`
    : html`<p key=${at} class=${line.well ? "well" : "ill"}><span class="mark" aria-hidden="true">${line.well ? "✓" : "✕"}</span> <${Found} what=${line.what} />: ${said(inShort(line.seen))}<br /><span class="dim">${said(line.because)}</span></p>`))}
    ${isPlaying && html`<${Next} step=${story.steps[Math.max(lines.length - 1, 0)]} hasBegun=${lines.length > 0} />`}
    ${!isPlaying && html`<p class="buttons"><button class=${onStage === story.folder ? "" : "main"} disabled=${steps.playing} onClick=${() => play(story, show)}>${onStage === story.folder ? "Play it again" : "Play it"}</button>
      ${onStage === story.folder && html`<button disabled=${steps.playing} onClick=${() => clear(show)}>Take it away</button>`}</p>`}
  </div>`;
}

// A name leads to what it means on the map and in the list; what is refused is on neither.
const Found = ({ what }) => (/^[a-z\d.-]+$/.test(what) ? html`<a class="link" ...${to({ find: what })} title="Show it on the map">${what}</a>` : said(what));

// Why a pod waits: on how many nodes for what, and the sentence that names the values.
const inShort = (seen) => seen.replace(/^(pending: )(.*?)(?: Why: (.*))?$/s, (_, pending, reason, why) => `${pending}${shortReason(reason)}${why ? `. ${why}` : ""}`);

// What to look at now.
function Next({ step, hasBegun }) {
  if (!hasBegun || !step) return html`<p class="dim">it begins…</p>`;
  if (step.seconds) return html`<p><span class="mark" aria-hidden="true">◷</span> ${step.seconds} s pass: watch the countdown on the left</p>`;
  if (!step.expected) return html`<p class="dim">the next step…</p>`;
  return html`<p><span class="mark" aria-hidden="true">◌</span> look at <${Found} what=${step.what} />: ${said(step.expected)}?</p>`;
}

async function clear(show) {
  await perform("", show);
  go({ story: "", find: "" });
}

function play(story, show) {
  go({ panel: "stories", story: story.folder, find: "" });
  return perform(story.folder, show);
}

async function perform(folder, show) {
  Object.assign(steps, { folder, lines: [], playing: true });
  onStage = folder;
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
