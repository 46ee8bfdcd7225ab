// A name that is cut in the middle when there is no room for it: its end tells pods, nodes and taints apart.
import { html, useLayoutEffect, useRef } from "./html.js";

const TAIL = 9;
const FITS = 14; // characters for which there is room everywhere
const DOTS = "…";

export function Cut({ text }) {
  const front = useRef();
  useLayoutEffect(() => {
    if (!front.current) return undefined;
    const box = front.current;
    watching.observe(box);
    return () => watching.unobserve(box);
  }, [text]);
  if (text.length <= FITS) return text;
  const end = text.length - Math.min(TAIL, Math.floor(text.length * 0.6));
  // To screen readers two boxes are two words, so they get the name in one.
  return html`<span class="cut" title=${text}><span aria-hidden="true" ref=${front}>${text.slice(0, end)}</span><span aria-hidden="true">${text.slice(end)}</span><span class="unseen">${text}</span></span>`;
}

// Whole letters go before the dots, so up to the width of one is left after them: the style sheet closes that gap.
const pen = document.createElement("canvas").getContext("2d");
const watching = new ResizeObserver((seen) => {
  const gaps = seen.map(({ target }) => [target, gapAfter(target)]);
  for (const [front, gap] of gaps) front.parentElement?.style.setProperty("--gap-inside", `${gap}px`);
});

function gapAfter(front) {
  if (front.scrollWidth <= front.clientWidth) return 0;
  const { fontWeight, fontSize, fontFamily } = getComputedStyle(front);
  pen.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  const room = front.getBoundingClientRect().width - pen.measureText(DOTS).width;
  const text = front.textContent;
  let shown = text.length;
  while (shown && pen.measureText(text.slice(0, shown)).width > room) shown--;
  return shown && Math.max(0, room - pen.measureText(text.slice(0, shown)).width);
}
