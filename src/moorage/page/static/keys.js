// The page without a mouse: keys that lead to its parts, arrows inside of them, and a focus that is not lost.
import { closed, go, read } from "./address.js";
import { useEffect, useRef } from "./html.js";

const first = (selector) => document.querySelector(selector)?.focus();
const KEYS = {
  "/": () => first("input[type=search]"),
  p: () => first(".pods li.chosen a, .pods li a"),
  m: () => first(".tile.chosen header a, .tile[data-node] header a, table.nodes a"),
  w: () => first("aside.why"),
  e: () => {
    const { pod, template, panel } = read();
    if ((pod || template) && panel !== "save") go({ panel: "edit" });
    first(".editor textarea");
  },
  h: () => first(".timeline li > a"),
  t: () => go({ view: read().view === "map" ? "table" : "map" }), // what is true now, not when it was drawn
  Escape: () => go(closed),
};
export const MEANINGS = [["/", "find"], ["p", "pods"], ["m", "map"], ["w", "why"], ["e", "change rules"], ["h", "last hour"], ["t", "table"], ["↑ ↓", "to the next"], ["Esc", "close"]];

// Links among which the arrow keys go: those of one list, in their order.
const ROWS = [".pods li a, .pods input", ".tile[data-node] header a", "table.nodes a", ".timeline li > a", ".stories li button", ".why .squares a"];
const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

export function useKeys() {
  useEffect(() => {
    const pressed = (event) => {
      const { target, key } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const isFinding = target.matches("input[type=search]") && key === "ArrowDown";
      if (target.matches("input, textarea, select") && !isFinding) {
        if (key === "Escape") leave(target);
        return;
      }
      const isDone = STEPS[key] ? step(target, STEPS[key]) : KEYS[key] && (KEYS[key](), true);
      if (isDone) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

// Out of a field, so that the keys mean what they do elsewhere.
function leave(field) {
  const panel = field.closest("aside.why");
  if (panel) panel.focus({ preventScroll: true });
  else field.blur();
}

function step(from, by) {
  const rows = ROWS.find((each) => from.matches(each));
  if (!rows) return false;
  const all = [...document.querySelectorAll(rows)];
  all[all.indexOf(from) + by]?.focus();
  return true;
}

// What was pressed may be gone afterwards: then the panel that came in its place has the focus, not the whole page.
export function useFocus(address) {
  const was = useRef(null);
  const held = document.activeElement;
  if (held && held !== document.body) was.current = held.closest("aside.why");
  useEffect(() => {
    if (was.current && document.activeElement === document.body) document.querySelector("aside.why")?.focus({ preventScroll: true });
    was.current = null;
  }, [Object.values(address).join("\n")]);
}
