// Texts that name code as Kubernetes' messages do, between backticks, and commands that do not break inside of a word.
import { html } from "./html.js";

// Between two backticks is code; one that has no other stands for itself.
export function said(text = "") {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return text;
  return parts.map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
}

// An option stays with its value; what is longer than a line breaks between the parts of a path or of JSON.
const joints = (word) => word.split(/(?<=[,/=:])/).map((part, at) => html`${at > 0 && html`<wbr />`}${part}`);
export const command = (text) => html`<pre>${text.split(/((?<! -\w) +|\n)/).map((part) => (part.trim() ? html`<span class="word">${joints(part)}</span>` : part))}</pre>`;
