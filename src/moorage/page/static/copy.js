// A button that copies a text, and says so.
import { html, useState } from "./html.js";

export function Copy({ text, children }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      say("copied");
    } catch {
      say("the browser does not allow it");
    }
    setTimeout(() => say(""), 2000);
  };
  return html`<button onClick=${copy}>${said || children}</button>`;
}
