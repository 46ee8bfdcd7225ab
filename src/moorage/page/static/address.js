// What is selected and how it is shown, in the part of the address after #, so that every state has a URL.
import { useEffect, useReducer } from "./html.js";

const DEFAULTS = { pod: "", node: "", group: "", colour: "owner", view: "map", find: "", happening: "", panel: "", whatif: "" };

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
}

export function hashOf(change) {
  const state = { ...read(), ...change };
  const kept = Object.entries(state).filter(([name, value]) => value !== DEFAULTS[name]);
  return `#${new URLSearchParams(kept)}`;
}

export function go(change) {
  const hash = hashOf(change);
  if (hash === (location.hash || "#")) return;
  history.pushState(null, "", hash === "#" ? location.pathname : hash);
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
