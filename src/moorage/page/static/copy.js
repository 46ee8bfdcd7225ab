// A button that copies a text, and says so.
import { html, useState } from "./html.js";

export function Copy({ text, children }) {
  const [copied, say] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    say(true);
    setTimeout(() => say(false), 2000);
  };
  return html`<button onClick=${copy}>${copied ? "copied" : children}</button>`;
}
