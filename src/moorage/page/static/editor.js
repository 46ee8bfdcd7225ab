// Other rules for a pod, tried out while they are typed: nothing is saved.
import { html, useEffect, useRef, useState } from "./html.js";
import { ask } from "./session.js";

const PAUSE = 300; // milliseconds without a key until what was typed is tried

export function Editor({ pod, tryOut }) {
  const [text, type] = useState(null);
  const [errors, tell] = useState([]);
  const written = useRef("");
  useEffect(() => {
    ask(`rules?pod=${encodeURIComponent(pod.key)}`).then((answer) => answer.json()).then(({ text: rules }) => {
      written.current = rules;
      type(rules || "tolerations: []\n");
    }, (error) => tell([{ line: 0, message: error.message }]));
    return () => tryOut(null);
  }, []);
  useEffect(() => {
    if (text === null) return undefined;
    if (text === written.current) { tell([]); tryOut(null); return undefined; }
    const timer = setTimeout(async () => {
      try {
        const answer = await (await ask("try", { pod: pod.key, rules: text })).json();
        tell(answer.errors);
        tryOut(answer.errors.length ? null : answer);
      } catch (error) {
        tell([{ line: 0, message: error.message }]);
      }
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<section class="editor"><h3>Try other rules <span class="dim">nothing is saved</span></h3>
    <textarea aria-label="Rules as YAML" spellcheck="false" rows="12" value=${text ?? ""} onInput=${(event) => type(event.target.value)} aria-invalid=${errors.length > 0}></textarea>
    <div role="status">${errors.map((error, at) => html`<p key=${at} class="message">${error.line > 0 && html`<b>line ${error.line}: </b>`}<span class="caret">${error.message}</span></p>`)}</div>
  </section>`;
}
