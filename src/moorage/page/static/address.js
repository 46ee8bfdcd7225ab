// What is selected and how it is shown, in the part of the address after #, so that every state has a URL.
import { useEffect, useReducer } from "./html.js";

const DEFAULTS = {
  pod: "", template: "", node: "", group: "", colour: "owner", view: "map", find: "", happening: "", kind: "", cause: "",
  panel: "", rules: "", at: "", whatif: "", story: "",
};

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
}

export function hashOf(change) {
  const state = { ...read(), ...change };
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  return `#${new URLSearchParams(kept)}`;
}

// What somebody types replaces the address; what somebody selects is a step that can be taken back.
export function go(change, { replace = false } = {}) {
  const hash = hashOf(change);
  if (hash === (location.hash || "#")) return;
  history[replace ? "replaceState" : "pushState"](null, "", hash === "#" ? location.pathname : hash);
  dispatchEvent(new Event("moored"));
}

export function useAddress() {
  const [, redraw] = useReducer((number) => number + 1, 0);
  useEffect(() => {
    for (const event of ["moored", "popstate", "hashchange"]) addEventListener(event, redraw);
    return () => ["moored", "popstate", "hashchange"].forEach((event) => removeEventListener(event, redraw));
  }, []);
  return read();
}

// What else is closed when something is selected.
const NOTHING = { pod: "", template: "", panel: "", rules: "", at: "" };
export const choosePod = (pod) => ({ ...NOTHING, pod });
export const chooseTemplate = (template) => ({ ...NOTHING, template });
export const closed = { ...NOTHING, node: "", whatif: "" };

// What the scheduler is asked about: a pod, or the template of a workload.
export const subjectOf = ({ pod, template }) => (pod ? { pod } : template ? { template } : null);

// What makes a link lead to a state; with a modifier key the browser does what it does with links.
export const to = (change) => ({
  href: hashOf(change),
  onClick: (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(change);
  },
});
