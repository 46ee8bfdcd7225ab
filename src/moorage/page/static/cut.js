// A name that is cut in the middle when there is no room for it: its end tells pods, nodes and taints apart.
import { html } from "./html.js";

const TAIL = 9;
const FITS = 14; // characters for which there is room everywhere

export function Cut({ text }) {
  if (text.length <= FITS) return text;
  const end = text.length - Math.min(TAIL, Math.floor(text.length * 0.6));
  // To screen readers two boxes are two words, so they get the name in one.
  return html`<span class="cut" title=${text}><span aria-hidden="true">${text.slice(0, end)}</span><span aria-hidden="true">${text.slice(end)}</span><span class="unseen">${text}</span></span>`;
}
